package pack

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// own is a message that writes and reads itself; asLibrary has the same fields, and the library does it.
type own struct {
	Name  string
	Data  []byte
	N     uint64
	I     int64
	Yes   bool
	Inner *own
	List  []own
	Rest  map[string]int
}

type asLibrary struct {
	Name  string
	Data  []byte
	N     uint64
	I     int64
	Yes   bool
	Inner *asLibrary
	List  []asLibrary
	Rest  map[string]int
}

const ownFields = 8

func (o *own) EncodeMsgpack(e *Encoder) error {
	out := Into(e, ownFields)
	out.String(o.Name)
	out.Bytes(o.Data)
	out.Uint(o.N)
	out.Int(o.I)
	out.Bool(o.Yes)
	if o.Inner == nil {
		out.Nil()
	} else {
		out.Struct(o.Inner)
	}
	if o.List == nil {
		out.Nil()
	} else {
		out.Len(len(o.List))
		for i := range o.List {
			out.Struct(&o.List[i])
		}
	}
	out.Any(o.Rest)
	return out.Err
}

func (o *own) DecodeMsgpack(d *Decoder) error {
	return Fields(d, ownFields, func(in *In, i int) {
		switch i {
		case 0:
			o.Name = in.String()
		case 1:
			o.Data = in.Bytes()
		case 2:
			o.N = in.Uint()
		case 3:
			o.I = in.Int()
		case 4:
			o.Yes = in.Bool()
		case 5:
			o.Inner = Optional[own](in)
		case 6:
			o.List = List[own](in)
		case 7:
			in.Any(&o.Rest)
		}
	})
}

func someOwn() (own, asLibrary) {
	a := own{Name: "a", Data: []byte{1}, N: 1 << 63, I: -1 << 40, Yes: true, Inner: &own{Data: []byte{}}, Rest: map[string]int{"x": 1}}
	b := asLibrary{Name: "a", Data: []byte{1}, N: 1 << 63, I: -1 << 40, Yes: true, Inner: &asLibrary{Data: []byte{}}, Rest: map[string]int{"x": 1}}
	for i := range 40 {
		a.List = append(a.List, own{I: int64(i) - 20})
		b.List = append(b.List, asLibrary{I: int64(i) - 20})
	}
	return a, b
}

// What a message writes itself is what the library would write and read.
func TestFields_AsTheLibraryDoesIt(t *testing.T) {
	a, b := someOwn()
	byItself, err := Marshal(&a)
	if err != nil {
		t.Fatal(err)
	}
	byLibrary, err := Marshal(&b)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{"itself": byItself, "the library": byLibrary} {
		var gotA own
		var gotB asLibrary
		if err := Unmarshal(raw, &gotA); err != nil {
			t.Fatal(err)
		}
		if err := Unmarshal(raw, &gotB); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, gotA); diff != "" {
			t.Errorf("written by %s: %s", name, diff)
		}
		if diff := cmp.Diff(b, gotB); diff != "" {
			t.Errorf("written by %s, read by the library: %s", name, diff)
		}
	}
	for n := range byItself { // whatever is missing is noticed, and nothing panics
		if err := Unmarshal(byItself[:n], new(own)); err == nil {
			t.Fatalf("%d bytes of %d are enough", n, len(byItself))
		}
	}
}

// An earlier version's message has fewer fields, a later one's more; one with another kind of value in a field is refused.
func TestFields_OfOtherVersions(t *testing.T) {
	for name, c := range map[string]struct {
		raw  []any
		want own
		bad  bool
	}{
		"fewer": {[]any{"n"}, own{Name: "n"}, false},
		"more":  {[]any{"n", nil, 1, 2, true, nil, nil, nil, []int{1}, "later"}, own{Name: "n", N: 1, I: 2, Yes: true}, false},
		"other": {[]any{"n", nil, "1"}, own{}, true},
		"depth": {[]any{"n", nil, 1, 2, true, 7}, own{}, true},
	} {
		raw, err := Marshal(c.raw)
		if err != nil {
			t.Fatal(err)
		}
		var got own
		if err := Unmarshal(raw, &got); (err != nil) != c.bad {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(c.want, got); diff != "" && !c.bad {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
