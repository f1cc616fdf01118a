package localfile

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"gridnode/engine/connector/internal/value"
	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

const (
	transactionVariable = "${transactionId}"
	maxExpression       = 60 // characters of file_name_expression
	tmpName             = "gridnode"
)

// naming makes the names of files.
type naming struct {
	expression string
	timeLayout string
	extension  string
}

var variables = regexp.MustCompile(`\$\{[^}]*\}`)

func readNaming(r *option.Reader, f fileFormat) naming {
	n := naming{expression: transactionVariable}
	custom := r.Bool("custom_filename", false)
	expression := r.String("file_name_expression", transactionVariable)
	if custom {
		n.expression = expression
	} else if r.Has("file_name_expression") {
		r.Fail("file_name_expression", "has no effect unless \"custom_filename\" is true")
	}
	if strings.ContainsAny(expression, "/\\\x00") || hidden(expression) || len(expression) > maxExpression {
		r.Fail("file_name_expression", "is %q; it must be the start of a visible file's name, of at most %d characters", expression, maxExpression)
	}
	for _, v := range variables.FindAllString(expression, -1) {
		if v != transactionVariable && v != "${now}" && v != "${uuid}" {
			r.Fail("file_name_expression", "has the variable %s; supported: ${transactionId}, ${now}, ${uuid}", v)
		}
	}
	pattern := r.String("filename_time_format", "yyyy.MM.dd")
	layout, err := value.Layout(pattern)
	if err != nil || strings.Contains(pattern, "/") || len(pattern) > maxExpression {
		r.Fail("filename_time_format", "is %q, which is not a date pattern for file names", pattern)
	}
	n.timeLayout = layout
	n.extension = dotted(r.String("filename_extension", map[string]string{textFormat: "txt", csvFormat: "csv", jsonFormat: "json"}[f.kind]))
	if strings.ContainsAny(n.extension, "/\\\x00") || len(n.extension) > maxExpression {
		r.Fail("filename_extension", "is %q, which is no extension", n.extension)
	}
	return n
}

// stem returns how the names of a transaction's files begin. Whatever the expression, the transaction is in it.
func (n naming) stem(transaction string, now time.Time) string {
	s := strings.NewReplacer("${now}", now.Format(n.timeLayout), "${uuid}", uuid.NewString(), transactionVariable, transaction).Replace(n.expression)
	if !strings.Contains(n.expression, transactionVariable) {
		s += "_" + transaction
	}
	return s
}

// prepared is what Commit needs to know of a task's output. It is sent as JSON.
type prepared struct {
	JobID       string `json:"jobId"`
	Incarnation string `json:"incarnation"`
	Task        string `json:"task"` // vertex-subtask-attempt, and from the second part on -part
	Stem        string `json:"stem"` // of the names of the files
	Extension   string `json:"extension"`
	Files       int    `json:"files"`
}

var (
	idForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	taskForm = regexp.MustCompile(`^[0-9]{1,10}-[0-9]{1,10}-[0-9]{1,10}(-[0-9]{1,10})?$`)
)

// prepare names a part of the output of a task: what is between two checkpoints; the first part is 0. No two parts of any tasks get the same
// names.
func (s *Sink) prepare(tc plugin.TaskContext, part int) (prepared, error) {
	p := prepared{
		JobID: tc.JobID, Incarnation: tc.Incarnation, Extension: s.names.extension,
		Task: fmt.Sprintf("%d-%d-%d", tc.Vertex, tc.Subtask, tc.Attempt),
	}
	if part > 0 {
		p.Task += fmt.Sprintf("-%d", part)
	}
	p.Stem = s.names.stem(p.transaction(), time.Now())
	return p, p.check()
}

// transaction names the output of one attempt of one task.
func (p prepared) transaction() string {
	return "T_" + p.JobID + "_" + p.Incarnation + "_" + strings.ReplaceAll(p.Task, "-", "_")
}

// check refuses names that would lead elsewhere. An id comes from the engine, but what it names is deleted, so it is not trusted.
func (p prepared) check() error {
	name := p.name(p.Files)
	switch {
	case checkIDs(p.JobID, p.Incarnation) != nil:
		return checkIDs(p.JobID, p.Incarnation)
	case !taskForm.MatchString(p.Task):
		return plugin.Permanentf("task %q is not a name", p.Task)
	case name != filepath.Base(name) || hidden(name) || len(name) > 250 || p.Files < 0:
		return plugin.Permanentf("%q is not a file's name", name)
	}
	return nil
}

func checkIDs(jobID, incarnation string) error {
	if !idForm.MatchString(jobID) || !idForm.MatchString(incarnation) {
		return plugin.Permanentf("job %q, incarnation %q: these are no ids", jobID, incarnation)
	}
	return nil
}

// name returns the name of the i-th file.
func (p prepared) name(i int) string { return fmt.Sprintf("%s_%d%s", p.Stem, i, p.Extension) }

// incarnationDir and dir are where the files grow, below tmp_path.
func (p prepared) incarnationDir() string { return incarnationDir(p.JobID, p.Incarnation) }
func (p prepared) dir() string            { return filepath.Join(p.incarnationDir(), p.Task) }

func incarnationDir(jobID, incarnation string) string {
	return filepath.Join(tmpName, jobID, incarnation)
}
