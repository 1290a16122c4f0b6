/* Preloaded into a program to move its wall clock, and the clock that goes on while a machine sleeps, and to let
 * its monotonic clock run faster. The file DLOCK_TEST_CLOCK holds the seconds for the first two, and millionths for
 * the third, each an int64 that the test overwrites in place.
 *
 * Not libfaketime: in a server that is linked to jemalloc dynamically, as Debian's Redis is, it
 * recurses at the start for ever (reading its settings allocates; jemalloc's start asks the time).
 * Nothing here allocates. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void find_offset(void) {
    const char *path = getenv("DLOCK_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, 3 * sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) abort();
    close(file);
    offset = page;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset[0];
    if (!failed && offset && clock == CLOCK_BOOTTIME) now->tv_sec += offset[1];
    if (!failed && offset && clock == CLOCK_MONOTONIC) {
        int64_t passed = now->tv_sec * 1000000000 + now->tv_nsec;
        passed += passed / 1000000 * offset[2];
        now->tv_sec = passed / 1000000000;
        now->tv_nsec = passed % 1000000000;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec real;
    int failed = clock_gettime(CLOCK_REALTIME, &real);
    now->tv_sec = real.tv_sec;
    now->tv_usec = real.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *result) {
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    if (result) *result = real.tv_sec;
    return real.tv_sec;
}

/* Valkey loads modules so that they prefer the C library to what is preloaded. */
void *dlopen(const char *path, int flags) {
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return real(path, flags & ~RTLD_DEEPBIND);
}
