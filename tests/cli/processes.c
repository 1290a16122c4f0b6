// Commands that are hard to end. Each prints its number when it has begun.

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *stay(void *unused) {
    printf("in %d\n", getpid());
    fflush(stdout);
    for (;;) pause();
    return unused;
}

static void is_asked(int signal) {
    (void)signal;
    if (write(1, "asked\n", 6) == 6) _exit(0);
    _exit(1);
}

// Leaves a process in a session of its own.
static void become_daemon(void) {
    if (fork()) return;
    setsid();
    if (fork()) _exit(0);
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    pid_t first = getpid();
    if (!strcmp(how, "threads")) {
        // Its first thread ends, and another works.
        pthread_t thread;
        signal(SIGTERM, SIG_IGN);
        pthread_create(&thread, NULL, stay, NULL);
        pthread_exit(NULL);
    } else if (!strcmp(how, "group")) {
        // It goes to dlock's group.
        signal(SIGTERM, SIG_IGN);
        if (setpgid(0, getpgid(getppid()))) perror("setpgid");
    } else if (!strcmp(how, "daemon")) {
        // The first process ends when it is asked to, and its daemon does not.
        become_daemon();
        if (getpid() == first) for (;;) pause();
        signal(SIGTERM, SIG_IGN);
    } else if (!strcmp(how, "leaves")) {
        // It ends, and its daemon does not.
        become_daemon();
        if (getpid() == first) return 0;
    } else if (!strcmp(how, "deep")) {
        // A process in another group; its parents wait for it.
        for (int depth = 0; depth < 3; depth++) {
            signal(SIGTERM, SIG_IGN);
            if (fork()) {
                while (wait(NULL) > 0) {}
                return 0;
            }
            setsid();
        }
        signal(SIGTERM, is_asked);
    } else if (!strcmp(how, "chain")) {
        // Each process lives for a moment, in a session of its own, and long enough for those that have ended to be
        // collected: they take process numbers from the whole machine.
        signal(SIGTERM, SIG_IGN);
        printf("in %d\n", getpid());
        fflush(stdout);
        if (fork()) for (;;) pause();
        for (;;) {
            if (fork()) _exit(0);
            setsid();
            usleep(300);
        }
    } else {
        return 64;
    }
    stay(NULL);
}
