/* Shifts the wall clock by ADJUTANT_TEST_CLOCK_OFF_BY seconds. The monotonic clock is unchanged. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long off_by(void)
{
    const char *seconds = getenv("ADJUTANT_TEST_CLOCK_OFF_BY");
    return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME)
        now->tv_sec += off_by();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise))
        return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise))
        return -1;
    if (out)
        *out = precise.tv_sec;
    return precise.tv_sec;
}
