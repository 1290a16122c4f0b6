// One leader among several hosts, through dlock agent. Run it: go run leader.go /run/dlock/agent.sock
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	key = "leader"
	ttl = 10 * time.Second
)

// The work of the leader. The term grows with each leader: send it with every write.
func lead(ctx context.Context, term int64) {
	fmt.Println("leads in the term", term)
	<-ctx.Done()
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		if err := campaign(ctx, os.Args[1]); err != nil && ctx.Err() == nil {
			log.Print(err)
			time.Sleep(time.Second)
		}
	}
}

// Waits for the lock, leads, and returns when the lock is lost. The connection is the lock: closing it resigns.
func campaign(ctx context.Context, socket string) error {
	agent, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer agent.Close()
	giveUp := context.AfterFunc(ctx, func() { agent.Close() })
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	token, ms := hex.EncodeToString(random), strconv.FormatInt(ttl.Milliseconds(), 10)
	replies := bufio.NewReader(agent)

	hostname, _ := os.Hostname()
	send(agent, "DLOCK.ACQUIRE", key, token, ms, "WAIT", "0", "EPHEMERAL", "RENEW", "CLOSE", "META", "at="+hostname)
	term, err := reply(replies)
	if err != nil || !giveUp() {
		return err
	}

	leading, resign := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); lead(leading, term) }()
	defer func() { resign(); <-done }() // before the connection is closed: the next leader begins after that

	// The agent renews the lock. EXTEND proves that it does: 1 is a lease of one ttl from the sending on.
	for {
		sent := time.Now()
		agent.SetDeadline(sent.Add(ttl / 3))
		send(agent, "DLOCK.EXTEND", key, token, ms)
		if held, err := reply(replies); err != nil || held != 1 {
			return fmt.Errorf("the lock is lost: %d %v", held, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-done:
			return nil
		case <-time.After(ttl / 10):
		}
	}
}

// Sends one command in the protocol of Redis. A write that fails shows at the next reply.
func send(to net.Conn, words ...string) {
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
	}
	to.Write([]byte(text.String()))
}

// Reads an integer; an error of the agent is an error.
func reply(from *bufio.Reader) (int64, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return 0, err
	}
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, ":") {
		return 0, fmt.Errorf("the agent answers %s", line)
	}
	return strconv.ParseInt(line[1:], 10, 64)
}
