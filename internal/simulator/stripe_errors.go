package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// apiError is a refusal in Stripe's error JSON.
type apiError struct {
	Status  int    `json:"-"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
	Type    string `json:"type"`
}

func (e *apiError) write(w http.ResponseWriter) {
	writeJSON(w, e.Status, map[string]*apiError{"error": e})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(indented(v)) // a client that left is no concern of the server's
}

// indented is v as Stripe prints JSON: two spaces, no HTML escapes.
func indented(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("simulator: value cannot be JSON: %v", err))
	}
	return b.Bytes()
}

func unknownURL(r *http.Request) *apiError {
	return &apiError{Status: http.StatusNotFound, Type: "invalid_request_error",
		Message: fmt.Sprintf("Unrecognized request URL (%s: %s). Please see https://stripe.com/docs or we can help at https://support.stripe.com/.", r.Method, r.URL.Path)}
}

// missing says that nothing has this id. A missing thing in the path is a 404,
// one in a parameter a 400.
func missing(what, id, param string) *apiError {
	status := http.StatusNotFound
	if param != "id" {
		status = http.StatusBadRequest
	}
	return &apiError{Status: status, Type: "invalid_request_error", Code: "resource_missing", Param: param,
		Message: fmt.Sprintf("No such %s: '%s'", what, id)}
}

func badParameter(param, message string, args ...any) *apiError {
	return &apiError{Status: http.StatusBadRequest, Type: "invalid_request_error", Param: param,
		Message: fmt.Sprintf(message, args...)}
}

func unknownParameter(param string) *apiError {
	e := badParameter(param, "Received unknown parameter: %s", param)
	e.Code = "parameter_unknown"
	return e
}

func emptyParameter(param string) *apiError {
	e := badParameter(param, "You passed an empty string for '%s'. We assume empty values are an attempt to unset a parameter; however '%s' cannot be unset. You should remove '%s' from your request or supply a non-empty value.", param, param, param)
	e.Code = "parameter_invalid_empty"
	return e
}
