// A job under a lock, with go-redis. Run it: go run go_redis.go /run/dlock/agent.sock
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	// No retries: a RELEASE that is sent twice answers 0. A WAIT is shorter than the client's time-out.
	agent := redis.NewClient(&redis.Options{Network: "unix", Addr: os.Args[1], MaxRetries: -1, ReadTimeout: 30 * time.Second})
	defer agent.Close()
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		log.Fatal(err)
	}
	token := hex.EncodeToString(random)

	fence, err := agent.Do(ctx, "DLOCK.ACQUIRE", "job:42", token, 30_000, "WAIT", 10_000).Int64()
	if errors.Is(err, redis.Nil) {
		log.Fatal("another client holds the lock")
	} else if err != nil {
		// "DONE 43199998 1795238075371227 …" if the job of this window is done.
		log.Fatal(err)
	}
	fmt.Println("held with the fence", fence)

	// In work that takes long, from time to time: 1, or the lock is lost and the work has to stop.
	if held, err := agent.Do(ctx, "DLOCK.EXTEND", "job:42", token, 30_000).Int(); err != nil || held != 1 {
		log.Fatal("the lock is lost ", err)
	}
	// A job that is to run once a window ends with "DONE", 43_200_000, "META", "exit 0" in place of this.
	if err := agent.Do(ctx, "DLOCK.RELEASE", "job:42", token).Err(); err != nil {
		log.Print(err)
	}
}
