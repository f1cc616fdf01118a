package rest

import (
	"math"
	"net/http"
	"strconv"
)

// page is the part of a list that a request wants. Without a page parameter that is all of it.
type page struct {
	wanted       bool
	number, rows int // from 1
}

// pageShape is a list of which one page was wanted.
type pageShape struct {
	Data  []any `json:"data"`
	Total int   `json:"total"`
}

const defaultRows = 10

// pageOf reads page and rows, with SeaTunnel's errors.
func pageOf(r *http.Request) (page, error) {
	q, err := queryOf(r)
	if err != nil {
		return page{}, err
	}
	p := page{wanted: q.given("page")}
	if p.number, err = q.positive("page", 1); err != nil {
		return page{}, err
	}
	p.rows, err = q.positive("rows", defaultRows)
	return p, err
}

func (q query) given(name string) bool { return len(q[name]) > 0 }

func (q query) positive(name string, fallback int) (int, error) {
	text, err := q.get(name)
	if err != nil || !q.given(name) {
		return fallback, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, badRequest("Parameter '%s' must be an integer, but was: %s", name, shorten(text))
	}
	if n < 1 {
		return 0, badRequest("Parameter '%s' must be greater than 0", name)
	}
	return n, nil
}

// from is where the page begins in a list that is long enough.
func (p page) from() int { return pageStart(p.number, p.rows) }

// pageStart is where a page begins, both from 1 on.
func pageStart(number, rows int) int {
	if number-1 > math.MaxInt/rows {
		return math.MaxInt
	}
	return (number - 1) * rows
}

// slice returns the bounds of the page in a list of total. The page right behind the last full one is empty, any later is an error.
func (p page) slice(total int) (from, to int, err error) {
	if !p.wanted {
		return 0, total, nil
	}
	if p.number-1 > total/p.rows {
		return 0, 0, badRequest("Page number exceeds total pages")
	}
	from = p.from()
	return from, min(total, from+min(p.rows, total)), nil
}
