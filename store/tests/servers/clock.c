/* Preloaded into a server: its wall clock is ahead by as many seconds as the file says that LEASE_CLOCK names, from the
   instant on at which that is written. All other clocks are the machine's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("LEASE_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *page = file < 0 ? MAP_FAILED : mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) _exit(127);
  ahead = page;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, clock, now);
  if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead;
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec exact;
  (void)zone;
  int failed = clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return failed;
}

time_t time(time_t *where) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (where) *where = now.tv_sec;
  return now.tv_sec;
}

/* Whoever waits until an instant has it from this clock, and the kernel waits by its own: ahead, the wait would take that
   much longer, and behind, it would be over at once. An instant of a clock that began with the machine is small. */
static int is_wall(const struct timespec *until) { return until->tv_sec > 1000000000; }

static clockid_t by_kernel(const struct timespec *until, struct timespec *real) {
  *real = *until;
  if (!is_wall(until)) return CLOCK_MONOTONIC;
  if (ahead) real->tv_sec -= *ahead;
  return CLOCK_REALTIME;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
  struct timespec real;
  clockid_t clock = by_kernel(until, &real);
  return pthread_cond_clockwait(cond, mutex, clock, &real);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
  struct timespec real;
  clockid_t clock = by_kernel(until, &real);
  return pthread_mutex_clocklock(mutex, clock, &real);
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict until) {
  struct timespec real;
  clockid_t clock = by_kernel(until, &real);
  return sem_clockwait(sem, clock, &real);
}
