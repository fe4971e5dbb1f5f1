/* Wall clock that jumps: a library for LD_PRELOAD.
 *
 * The file named by CLOCK_SHIFT_FILE holds one int64: the seconds by which CLOCK_REALTIME is
 * shifted now. Readings change at once. A wait until an absolute wall-clock time follows a jump
 * within SLICE_NS, as in the kernel. CLOCK_MONOTONIC is left alone, as by a real clock jump.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000L
#define SLICE_NS 50000000L /* of an absolute wait, after which the shift is read again */

static const volatile int64_t *shift;
static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_cond)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_sem)(sem_t *, const struct timespec *);
static long (*real_syscall)(long, ...);

__attribute__((constructor)) static void start(void) {
  static const int64_t none = 0;
  const char *path = getenv("CLOCK_SHIFT_FILE");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  shift = page == MAP_FAILED ? &none : page;
  real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  real_cond = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  real_sem = dlsym(RTLD_NEXT, "sem_timedwait");
  real_syscall = dlsym(RTLD_NEXT, "syscall");
}

/* The end of the next slice of a wait, on the real clock; 1 if the wait ends with it. */
static int slice(const struct timespec *until, struct timespec *end) {
  real_gettime(CLOCK_REALTIME, end);
  int64_t left = (until->tv_sec - *shift - end->tv_sec) * SECOND_NS + until->tv_nsec - end->tv_nsec;
  int64_t wait = left < 0 ? 0 : left < SLICE_NS ? left : SLICE_NS;
  end->tv_nsec += wait;
  end->tv_sec += end->tv_nsec / SECOND_NS;
  end->tv_nsec %= SECOND_NS;
  return left <= SLICE_NS;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (!real_gettime) start();
  int result = real_gettime(clock, now);
  if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *shift;
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec read;
  (void)zone;
  int result = clock_gettime(CLOCK_REALTIME, &read);
  now->tv_sec = read.tv_sec;
  now->tv_usec = read.tv_nsec / 1000;
  return result;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

/* The end of a slice is a spurious wake-up, which callers of a condition have to expect. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until) {
  struct timespec end;
  if (cond->__data.__wrefs & 2) return real_cond(cond, mutex, until); /* waits on CLOCK_MONOTONIC */
  int last = slice(until, &end);
  int result = real_cond(cond, mutex, &end);
  return result == ETIMEDOUT && !last ? 0 : result;
}

int sem_timedwait(sem_t *sem, const struct timespec *until) {
  struct timespec end;
  for (;;) {
    int last = slice(until, &end);
    int result = real_sem(sem, &end);
    if (result == 0 || errno != ETIMEDOUT || last) return result;
  }
}

/* Abseil, and so gRPC, waits by futex calls of its own. */
long syscall(long number, ...) {
  long a[6];
  va_list list;
  va_start(list, number);
  for (int at = 0; at < 6; at++) a[at] = va_arg(list, long);
  va_end(list);
  if (!real_syscall) start();
  int timed = number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) && a[3];
  if (!timed) return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  struct timespec end;
  int last = slice((const struct timespec *)a[3], &end);
  long result = real_syscall(number, a[0], a[1], a[2], (long)&end, a[4], a[5]);
  return result == -1 && errno == ETIMEDOUT && !last ? 0 : result;
}
