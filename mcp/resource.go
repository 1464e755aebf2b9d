package mcp

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// The URIs of the resources.
const (
	tasksAt = "pawl://tasks/"
	typesAt = "pawl://types/"
)

const (
	asJSON   = "application/json"
	asStream = "text/event-stream"
)

func (s *Server) resources() {
	s.resource(tasksAt+"{id}", "task", "get_task", "A task with its items and, once it has completed, its result.",
		func(ctx context.Context, id string) (any, error) {
			out, err := get(ctx, s, getIn{TaskID: id})
			return &out, err
		})
	s.resource(typesAt+"{name}", "type", "get_type",
		"What good work of a type is: the schemas of payload, input, result and parts, and who approves.",
		func(ctx context.Context, name string) (any, error) {
			out, err := s.svc.GetType(ctx, name, 0)
			return &out, err
		})
}

// resource serves what a template names by its last segment; read returns a pointer.
func (s *Server) resource(template, name, route, means string, read func(ctx context.Context, id string) (any, error)) {
	s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: template, Name: name, Description: means, MIMEType: asJSON},
		func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			uri := req.Params.URI
			id, err := url.PathUnescape(uri[strings.LastIndexByte(uri, '/')+1:])
			if err != nil || id == "" {
				return nil, sdk.ResourceNotFoundError(uri)
			}
			if ctx, err = s.admit(ctx, "resources/read", nil, api.RouteOf(route).Role); err != nil {
				return nil, s.unreadable(ctx, uri, err)
			}
			end, err := s.opts.Gate.BeginRead(ctx)
			if err != nil {
				return nil, s.unreadable(ctx, uri, err)
			}
			defer end()
			v, err := read(ctx, id)
			if err != nil {
				return nil, s.unreadable(ctx, uri, err)
			}
			text, meta, err := shown(ctx, api.RouteOf(route), v)
			if err != nil {
				return nil, s.unreadable(ctx, uri, err)
			}
			return &sdk.ReadResourceResult{Meta: meta, Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: asJSON, Text: string(text)}}}, nil
		})
}

// unreadable converts an error to the protocol's form: a resource has no other place for
// one.
func (s *Server) unreadable(ctx context.Context, uri string, err error) error {
	p := api.ProblemOf(err, "")
	code := int64(jsonrpc.CodeInternalError)
	switch p.Code {
	case pawl.CodeNotFound:
		return sdk.ResourceNotFoundError(uri)
	case pawl.CodeInternal, pawl.CodeUnavailable:
		s.opts.Log.ErrorContext(ctx, "reading a resource", "uri", uri, "error", err)
	default:
		code = jsonrpc.CodeInvalidParams
	}
	data, _ := json.Marshal(problemOf(p, err)) // a problem always encodes
	return &jsonrpc.Error{Code: code, Message: sentence(p), Data: data}
}
