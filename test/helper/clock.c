/*
 * A clock for tests: gettimeofday() answers with the microseconds since 1970 that stand in the file
 * $TEST_CLOCK (int64, little-endian), so that time stands still until the test writes another.
 * Redis takes TIME and the expiry of keys from gettimeofday(). Loaded by LD_PRELOAD.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static const volatile int64_t *now;

static void stop(const char *what) {
  fprintf(stderr, "test clock: ");
  perror(what);
  abort();
}

__attribute__((constructor)) static void start(void) {
  const char *path = getenv("TEST_CLOCK");
  struct stat file;
  if (path == NULL) {
    fprintf(stderr, "test clock: TEST_CLOCK does not name a file\n");
    abort();
  }
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &file) != 0) stop(path);
  if (file.st_size < (off_t)sizeof *now) {
    fprintf(stderr, "test clock: %s is shorter than 8 bytes\n", path);
    abort();
  }
  void *page = mmap(NULL, sizeof *now, PROT_READ, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) stop(path);
  close(fd);
  now = page;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
  (void)tz;
  int64_t us = *now;
  tv->tv_sec = us / 1000000;
  tv->tv_usec = us % 1000000;
  return 0;
}

/*
 * Hides what the processor can do: where it has a steady clock, Valkey 9.1 reads that, and gettimeofday() only once a
 * millisecond.
 */
FILE *fopen64(const char *restrict path, const char *restrict mode) {
  FILE *(*open)(const char *restrict, const char *restrict);
  *(void **)&open = dlsym(RTLD_NEXT, "fopen64");
  return open(strcmp(path, "/proc/cpuinfo") == 0 ? "/dev/null" : path, mode);
}
