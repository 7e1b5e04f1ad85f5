package deviceplugin

import (
	"log/slog"
	"os"

	"github.com/fsnotify/fsnotify"
)

// A watch reports changes in the socket directory. The directory may be missing
// and come later, or be replaced: renew looks for it again.
type watch struct {
	dir     string
	log     *slog.Logger
	watcher *fsnotify.Watcher // nil while there is nothing to watch
	seen    os.FileInfo       // the directory that is watched
}

func newWatch(dir string, log *slog.Logger) *watch {
	w := &watch{dir: dir, log: log}
	w.renew()
	return w
}

// changed yields an event for each change; nil while nothing is watched.
func (w *watch) changed() <-chan fsnotify.Event {
	if w.watcher == nil {
		return nil
	}
	return w.watcher.Events
}

// failed yields the watcher's own errors, which it waits to be rid of.
func (w *watch) failed() <-chan error {
	if w.watcher == nil {
		return nil
	}
	return w.watcher.Errors
}

// renew watches the directory that is there now.
func (w *watch) renew() {
	now, err := os.Stat(w.dir)
	if err == nil && w.seen != nil && os.SameFile(now, w.seen) {
		return
	}
	w.close()
	if err != nil {
		w.log.Warn("the socket directory is missing", "dir", w.dir, "error", err)
		return
	}
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		err = watcher.Add(w.dir)
	}
	if err != nil {
		w.log.Warn("the socket directory cannot be watched and is looked at every few seconds", "dir", w.dir, "error", err)
		if watcher != nil {
			_ = watcher.Close()
		}
		return
	}
	w.watcher, w.seen = watcher, now
}

func (w *watch) close() {
	if w.watcher != nil {
		_ = w.watcher.Close()
	}
	w.watcher, w.seen = nil, nil
}
