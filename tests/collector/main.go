// The receiver for OTLP of the OpenTelemetry collector, which prints the metrics that it gets as
// JSON, a request a line: what tests send metrics to.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func main() {
	if len(os.Args) != 2 && len(os.Args) != 5 {
		log.Fatal("usage: collector ADDRESS:PORT [CERTIFICATE KEY AUTHORITY-OF-CLIENTS]")
	}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	http := map[string]any{"endpoint": os.Args[1]}
	if len(os.Args) == 5 {
		http["tls"] = map[string]any{
			"cert_file":      os.Args[2],
			"key_file":       os.Args[3],
			"client_ca_file": os.Args[4],
		}
	}
	protocols := map[string]any{"http": http}
	given := confmap.NewFromStringMap(map[string]any{"protocols": protocols})
	if err := given.Unmarshal(config); err != nil {
		log.Fatal(err)
	}
	printer, err := consumer.NewMetrics(func(_ context.Context, metrics pmetric.Metrics) error {
		text, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(metrics)
		if err == nil {
			_, err = fmt.Println(string(text))
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	settings := receiver.Settings{
		ID:                component.NewID(factory.Type()),
		TelemetrySettings: componenttest.NewNopTelemetrySettings(),
	}
	received, err := factory.CreateMetrics(context.Background(), settings, config, printer)
	if err != nil {
		log.Fatal(err)
	}
	if err := received.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		log.Fatal(err)
	}
	select {}
}
