package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// terminal runs a command whose output is a terminal of some columns:
// "terminal 80 kerf plan -f a.yaml". The exit code does not count.
func terminal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: terminal columns command [args...]")
	}
	columns, err := strconv.ParseUint(args[0], 10, 16)
	ts.Check(err)
	master, slave, err := openTerminal(uint16(columns))
	ts.Check(err)
	defer master.Close()
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Stdout, cmd.Stderr = slave, slave
	for _, name := range []string{"PATH", "HOME", "LANG", "LC_ALL", "TERM", "NO_COLOR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	ts.Check(cmd.Start())
	slave.Close()
	var out bytes.Buffer
	_, _ = io.Copy(&out, master) // a terminal whose other side is gone ends in an error
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		ts.Fatalf("%v", err)
	}
	_, err = io.WriteString(ts.Stdout(), strings.ReplaceAll(out.String(), "\r\n", "\n"))
	ts.Check(err)
}

// openTerminal makes a terminal and returns its two sides.
func openTerminal(columns uint16) (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("unlock the terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, fmt.Errorf("find the terminal: %w", err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: columns}); err != nil {
		return nil, nil, fmt.Errorf("size the terminal: %w", err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	return master, slave, err
}

func init() { commands["terminal"] = terminal }
