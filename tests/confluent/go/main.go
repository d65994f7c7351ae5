// Does what a document on the standard input asks of the registry, by the client of franz-go, and
// writes a document with what came of it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

type wish struct {
	Call    string         `json:"call"`
	Context string         `json:"context"`
	Subject string         `json:"subject"`
	Version int            `json:"version"`
	ID      int            `json:"id"`
	GUID    string         `json:"guid"`
	Level   string         `json:"level"`
	Mode    string         `json:"mode"`
	Hard    bool           `json:"hard"`
	Deleted bool           `json:"deleted"`
	Prefix  string         `json:"prefix"`
	Schema  sr.Schema      `json:"schema"`
	Value   map[string]any `json:"value"`
	Message []byte         `json:"message"`
}

func main() {
	var asked struct {
		URL    string `json:"url"`
		Wishes []wish `json:"wishes"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	client, err := sr.NewClient(sr.URLs(asked.URL))
	if err != nil {
		log.Fatal(err)
	}
	answers := []any{}
	for _, each := range asked.Wishes {
		answer, err := fulfil(client, each)
		if err != nil {
			answer = failure(err)
		}
		answers = append(answers, answer)
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"answers": answers}); err != nil {
		log.Fatal(err)
	}
}

func failure(err error) any {
	var refused *sr.ResponseError
	if errors.As(err, &refused) {
		return map[string]any{"status": refused.StatusCode, "code": refused.ErrorCode}
	}
	return map[string]any{"error": err.Error()}
}

func fulfil(client *sr.Client, w wish) (any, error) {
	ctx := context.Background()
	if w.Context != "" {
		ctx = sr.InContext(ctx, w.Context)
	}
	if w.Deleted {
		ctx = sr.WithParams(ctx, sr.ShowDeleted)
	}
	if w.Prefix != "" {
		ctx = sr.WithParams(ctx, sr.SubjectPrefix(w.Prefix))
	}
	how := sr.DeleteHow(w.Hard)
	switch w.Call {
	case "types":
		return client.SupportedTypes(ctx)
	case "contexts":
		return client.Contexts(ctx)
	case "delete context":
		return nil, client.DeleteContext(ctx, w.Context)
	case "subjects":
		return client.Subjects(ctx)
	case "versions":
		return client.SubjectVersions(ctx, w.Subject)
	case "create":
		return client.CreateSchema(ctx, w.Subject, w.Schema)
	case "import":
		return client.CreateSchemaWithIDAndVersion(ctx, w.Subject, w.Schema, w.ID, w.Version)
	case "lookup":
		return client.LookupSchema(ctx, w.Subject, w.Schema)
	case "schema":
		return client.SchemaByVersion(ctx, w.Subject, w.Version)
	case "text":
		return client.SchemaTextByVersion(ctx, w.Subject, w.Version)
	case "schemas":
		return client.Schemas(ctx, w.Subject)
	case "all schemas":
		return client.AllSchemas(ctx)
	case "references":
		return client.SchemaReferences(ctx, w.Subject, w.Version)
	case "by id":
		return client.SchemaByID(ctx, w.ID)
	case "text by id":
		return client.SchemaTextByID(ctx, w.ID)
	case "subjects by id":
		return client.SubjectsByID(ctx, w.ID)
	case "versions by id":
		return client.SchemaVersionsByID(ctx, w.ID)
	case "by guid":
		return client.SchemaByGUID(ctx, w.GUID)
	case "ids by guid":
		return client.SchemaIDsByGUID(ctx, w.GUID)
	case "check":
		return client.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), w.Subject, w.Version, w.Schema)
	case "level":
		answer := client.Compatibility(ctx, w.Subject)[0]
		return answer.Level.String(), answer.Err
	case "set level":
		var level sr.CompatibilityLevel
		if err := level.UnmarshalText([]byte(w.Level)); err != nil {
			return nil, err
		}
		answer := client.SetCompatibility(ctx, sr.SetCompatibility{Level: level}, w.Subject)[0]
		return answer.Level.String(), answer.Err
	case "reset level":
		answer := client.ResetCompatibility(ctx, w.Subject)[0]
		return answer.Level.String(), answer.Err
	case "mode":
		answer := client.Mode(ctx, w.Subject)[0]
		return answer.Mode.String(), answer.Err
	case "set mode":
		var mode sr.Mode
		if err := mode.UnmarshalText([]byte(w.Mode)); err != nil {
			return nil, err
		}
		answer := client.SetMode(ctx, mode, w.Subject)[0]
		return answer.Mode.String(), answer.Err
	case "reset mode":
		answer := client.ResetMode(ctx, w.Subject)[0]
		return answer.Mode.String(), answer.Err
	case "delete":
		return client.DeleteSubject(ctx, w.Subject, how)
	case "delete version":
		return nil, client.DeleteSchema(ctx, w.Subject, w.Version, how)
	case "encode":
		return encode(ctx, client, w)
	case "decode":
		return decode(ctx, client, w.Message)
	}
	return nil, errors.New("no such call")
}

// encode writes a value of JSON with the id of the newest schema of a subject.
func encode(ctx context.Context, client *sr.Client, w wish) ([]byte, error) {
	held, err := client.SchemaByVersion(ctx, w.Subject, -1)
	if err != nil {
		return nil, err
	}
	serde := sr.NewSerde()
	serde.Register(held.ID, map[string]any{}, sr.EncodeFn(json.Marshal))
	return serde.Encode(w.Value)
}

// decode reads a value of JSON, if its schema is known.
func decode(ctx context.Context, client *sr.Client, message []byte) (any, error) {
	serde := sr.NewSerde()
	id, _, err := serde.DecodeID(message)
	if err != nil {
		return nil, err
	}
	held, err := client.SchemaByID(ctx, id)
	if err != nil {
		return nil, err
	}
	var value map[string]any
	serde.Register(id, map[string]any{}, sr.DecodeFn(json.Unmarshal))
	err = serde.Decode(message, &value)
	return map[string]any{"schema": held, "value": value}, err
}
