package nodeconfig

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// lookEvery is how often files are looked at although nothing was reported of
// them: not every file system reports.
const lookEvery = 30 * time.Second

// WatchFiles calls changed when it begins to watch, after each change in the
// source's folder, and now and then without one, until ctx ends. It notices the kubelet's swap of a
// mounted ConfigMap, a replaced link and a file written in place.
func (s Source) WatchFiles(ctx context.Context, log *slog.Logger, changed func()) {
	dir := s.Dir
	if s.File != "" {
		dir = filepath.Dir(s.File)
	}
	if dir == "" {
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var w *fsnotify.Watcher
	defer func() { closeWatcher(w) }()
	for {
		if w == nil {
			if w = watchDir(dir, log); w != nil {
				changed() // what changed before the watch was not reported
			}
		}
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events(w):
			if !ok || (e.Has(fsnotify.Remove) && e.Name == dir) {
				closeWatcher(w)
				w = nil
			}
			if e.Op != fsnotify.Chmod && s.concerns(e.Name) {
				changed()
			}
		case err := <-failures(w):
			log.Warn("changes of device configs may have been missed", "dir", dir, "error", err)
			changed()
		case <-tick.C:
			changed()
		}
	}
}

// concerns reports whether a change of a file in the folder may be one of the
// configs. Of a single file that is the file, and the folder that the kubelet
// swaps under it.
func (s Source) concerns(name string) bool {
	base := filepath.Base(name)
	return s.File == "" || base == filepath.Base(s.File) || strings.HasPrefix(base, "..")
}

func watchDir(dir string, log *slog.Logger) *fsnotify.Watcher {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		if err = w.Add(dir); err == nil {
			return w
		}
		closeWatcher(w)
	}
	log.Warn("device configs cannot be watched and are looked at now and then", "dir", dir, "every", lookEvery, "error", err)
	return nil
}

func closeWatcher(w *fsnotify.Watcher) {
	if w != nil {
		_ = w.Close()
	}
}

func events(w *fsnotify.Watcher) <-chan fsnotify.Event {
	if w == nil {
		return nil
	}
	return w.Events
}

func failures(w *fsnotify.Watcher) <-chan error {
	if w == nil {
		return nil
	}
	return w.Errors
}
