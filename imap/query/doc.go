// Package query is what can be asked of the entries of a map: predicates, aggregations and projections over attributes of keys and values.
//
// An attribute is a path into the value: "age", "address.city", "phones[0]", "phones[any].kind". "this" is the value itself, "__key" the
// key, "__key.id" an attribute of it. What is not there is null. Data that cannot be read, such as malformed JSON, has null attributes only:
// it never fails a query.
//
// Everything here is pure: a [Predicate] is plain data with a wire form and a text form, [Compile] checks it and makes a [Matcher].
package query
