package simulator

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// parseEventQuery reads the parameters of GET /v1/events, and refuses what
// Stripe refuses.
func parseEventQuery(values url.Values) (eventQuery, *apiError) {
	q := eventQuery{from: math.MinInt64, to: math.MaxInt64}
	var refusal *apiError
	if q.limit, q.after, q.before, refusal = parsePaging(values); refusal != nil {
		return q, refusal
	}
	q.paging = q.after != "" || q.before != ""
	for param, given := range values {
		if slices.Contains(given, "") {
			return q, emptyParameter(param)
		}
		if refusal := q.take(param, given[len(given)-1], given); refusal != nil {
			return q, refusal
		}
	}
	if values.Has("type") && len(q.types) > 1 {
		return q, badParameter("types", "You may only specify one of these parameters: type, types.")
	}
	if len(q.types) > 20 {
		return q, badParameter("types", "You may only specify up to 20 types.")
	}
	q.oneSecond = q.to != math.MaxInt64 && q.to-1 == q.from
	return q, nil
}

// take reads one parameter.
func (q *eventQuery) take(param, value string, all []string) *apiError {
	name, _, _ := strings.Cut(param, "[")
	switch name {
	case "limit", "starting_after", "ending_before", "expand":
		return nil
	case "created":
		return q.takeCreated(param, value)
	case "type":
		q.types = append(q.types, value)
		return nil
	case "types":
		q.types = append(q.types, all...)
		return nil
	case "delivery_success":
		return q.takeDelivered(value)
	}
	return unknownParameter(param)
}

func (q *eventQuery) takeDelivered(value string) *apiError {
	delivered, err := strconv.ParseBool(value)
	if err != nil {
		return badParameter("delivery_success", "Invalid boolean: %s", value)
	}
	q.delivered = &delivered
	return nil
}

// takeCreated narrows the range of time, [from, to).
func (q *eventQuery) takeCreated(param, value string) *apiError {
	second, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return badParameter(param, "Invalid integer: %s", value)
	}
	switch param {
	case "created":
		q.from, q.to = max(q.from, second), min(q.to, second+1)
	case "created[gte]":
		q.from = max(q.from, second)
	case "created[gt]":
		q.from = max(q.from, second+1)
	case "created[lt]":
		q.to = min(q.to, second)
	case "created[lte]":
		q.to = min(q.to, second+1)
	default:
		return unknownParameter(param)
	}
	return nil
}

// parsePaging reads the parameters that every listing has.
func parsePaging(values url.Values) (limit int, after, before string, refusal *apiError) {
	limit = 10
	if given := values.Get("limit"); values.Has("limit") {
		n, err := strconv.Atoi(given)
		switch {
		case err != nil:
			return 0, "", "", badParameter("limit", "Invalid integer: %s", given)
		case n < 1:
			return 0, "", "", badParameter("limit", "This value must be greater than or equal to 1.")
		case n > 100:
			return 0, "", "", badParameter("limit", "This value must be less than or equal to 100 (it currently is '%d').", n)
		}
		limit = n
	}
	after, before = values.Get("starting_after"), values.Get("ending_before")
	if after != "" && before != "" {
		return 0, "", "", badParameter("ending_before", "You may only specify one of these parameters: starting_after, ending_before.")
	}
	return limit, after, before, nil
}

// pageOf cuts one page out of a short list, newest first.
func pageOf[T any](newestFirst []T, id func(T) string, what string, values url.Values) (page []T, more bool, refusal *apiError) {
	limit, after, before, refusal := parsePaging(values)
	if refusal != nil {
		return nil, false, refusal
	}
	at := func(wanted string) int {
		return slices.IndexFunc(newestFirst, func(t T) bool { return id(t) == wanted })
	}
	lo, hi := 0, len(newestFirst)
	if after != "" {
		if lo = at(after) + 1; lo == 0 {
			return nil, false, missing(what, after, "starting_after")
		}
	}
	if before != "" {
		if hi = at(before); hi < 0 {
			return nil, false, missing(what, before, "ending_before")
		}
		from := max(lo, hi-limit)
		return newestFirst[from:hi], from > lo, nil
	}
	end := min(hi, lo+limit)
	return newestFirst[lo:end], end < hi, nil
}
