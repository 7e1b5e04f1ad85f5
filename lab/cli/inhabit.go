package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/term"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kerfdev/kerf/lab/demo"
	"github.com/kerfdev/kerf/lab/plane"
	"github.com/kerfdev/kerf/lab/world"
)

// withNodeClass adds the CRD of EC2NodeClass, unless one was given.
func withNodeClass(crds []*apiextensionsv1.CustomResourceDefinition) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	class, err := world.NodeClassCRD()
	if err != nil {
		return nil, err
	}
	for _, c := range crds {
		if c.Name == class.Name {
			return crds, nil
		}
	}
	return append(crds, class), nil
}

// inhabit starts the simulated cloud and the controller.
func inhabit(ctx context.Context, p *plane.Plane, config Config) (*world.World, error) {
	logger, err := logTo(p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	w, err := world.Start(ctx, world.Config{REST: p.RESTConfig(), Speed: config.Speed, Logger: logger})
	if err != nil {
		return nil, err
	}
	if _, err := w.Control(ctx, nil); err != nil {
		return nil, errors.Join(err, w.Leave())
	}
	return w, nil
}

// logTo opens the log of the cloud and the controller beside those of the plane.
// It is closed with the process.
func logTo(p *plane.Plane) (logr.Logger, error) {
	name := filepath.Join(filepath.Dir(p.Kubeconfig()), "logs", "kerf.log")
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return logr.Logger{}, fmt.Errorf("opening the log: %w", err)
	}
	return logr.FromSlogHandler(slog.NewTextHandler(file, nil)), nil
}

// Demo shows the lab at work and ends by itself.
func Demo(ctx context.Context, config Config, out io.Writer) error {
	return withPlane(ctx, config, out, func(p *plane.Plane, begin time.Time) error {
		logger, err := logTo(p)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "up in %.1f s\n", time.Since(begin).Seconds())
		err = demo.Run(ctx, demo.Config{REST: p.RESTConfig(), Out: out, Screen: screenOf(out), Logger: logger})
		if errors.Is(err, context.Canceled) {
			return nil // told to stop
		}
		return err
	})
}

// screenOf finds out what can be shown.
func screenOf(out io.Writer) demo.Screen {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return demo.Screen{}
	}
	s := demo.Screen{Terminal: os.Getenv("TERM") != "dumb", Colour: os.Getenv("NO_COLOR") == ""}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.Width = width
	}
	return s
}
