package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// object is what the test looks at of the objects of the manifest.
type object struct {
	APIVersion, Kind string
	Metadata         struct{ Name, Namespace string }
	Spec             struct {
		// a Deployment
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Containers []struct {
					Args  []string
					Env   []struct{ Name, Value string }
					Ports []struct {
						Name          string
						ContainerPort int
					}
					ReadinessProbe struct{ GRPC struct{ Port int } }
				}
			}
		}
		// a Deployment or a Service
		Selector any
		Ports    []struct {
			Port       int
			TargetPort string
		}
		// a ScaledObject
		ScaleTargetRef struct{ Name string }
		Triggers       []struct {
			Type     string
			Metadata map[string]string
		}
	}
}

// The names, ports and labels of the manifest belong together, and the scaler accepts the metadata.
func TestManifest(t *testing.T) {
	raw, err := os.ReadFile("manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]object{}
	for text := range strings.SplitSeq(string(raw), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		objects[o.APIVersion+" "+o.Kind] = o
	}
	deployment, service, scaled := objects["apps/v1 Deployment"], objects["v1 Service"], objects["keda.sh/v1alpha1 ScaledObject"]
	if len(objects) != 3 || len(deployment.Spec.Template.Spec.Containers) != 1 ||
		len(service.Spec.Ports) != 1 || len(scaled.Spec.Triggers) != 1 {
		t.Fatalf("objects: %+v", objects)
	}
	labels, c := deployment.Spec.Template.Metadata.Labels, deployment.Spec.Template.Spec.Containers[0]
	if got := deployment.Spec.Selector.(map[string]any)["matchLabels"]; fmt.Sprint(got) != fmt.Sprint(labels) {
		t.Errorf("the Deployment selects %v of %v", got, labels)
	}
	if got := service.Spec.Selector; fmt.Sprint(got) != fmt.Sprint(labels) {
		t.Errorf("the Service selects %v of %v", got, labels)
	}
	port := service.Spec.Ports[0]
	if len(c.Ports) != 1 || c.Ports[0].Name != port.TargetPort || c.ReadinessProbe.GRPC.Port != c.Ports[0].ContainerPort ||
		!slices.Equal(c.Args, []string{"--addr", fmt.Sprint(":", c.Ports[0].ContainerPort)}) {
		t.Errorf("ports: %v, %v, %v, %v", c.Ports, c.ReadinessProbe, c.Args, port)
	}
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	if _, key := env["PAWL_KEY"]; len(env) != 2 || !key || !strings.HasPrefix(env["PAWL_SERVER"], "http://") {
		t.Errorf("environment: %v", env)
	}
	trigger := scaled.Spec.Triggers[0]
	address := fmt.Sprintf("%s.%s.svc:%d", service.Metadata.Name, service.Metadata.Namespace, port.Port)
	if trigger.Type != "external-push" || trigger.Metadata["scalerAddress"] != address || scaled.Spec.ScaleTargetRef.Name == "" ||
		scaled.Metadata.Namespace == "" || deployment.Metadata.Namespace != service.Metadata.Namespace {
		t.Errorf("trigger: %+v, want the address %s", trigger, address)
	}
	got, err := (&scaler{server: env["PAWL_SERVER"]}).parse(trigger.Metadata)
	if err != nil || len(got.types) != 2 || got.target != 10 {
		t.Errorf("%+v, %v", got, err)
	}
}
