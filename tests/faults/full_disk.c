/* While the file named by ADJUTANT_TEST_DISK_IS_FULL exists, no table can grow. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_full(int fd, off_t end)
{
    const char *flag = getenv("ADJUTANT_TEST_DISK_IS_FULL");
    char link[64], path[4096];
    struct stat st;
    ssize_t length;

    if (!flag || fstat(fd, &st) || end <= st.st_size || access(flag, F_OK))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    if (!strstr(path, "/base/"))
        return 0;
    errno = ENOSPC;
    return 1;
}

static off_t total(const struct iovec *parts, int count)
{
    off_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += parts[i].iov_len;
    return sum;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define WRITE(name) \
    ssize_t name(int fd, const void *data, size_t size, off_t at) \
    { return is_full(fd, at + (off_t)size) ? -1 : REAL(name)(fd, data, size, at); }
#define WRITE_PARTS(name) \
    ssize_t name(int fd, const struct iovec *parts, int count, off_t at) \
    { return is_full(fd, at + total(parts, count)) ? -1 : REAL(name)(fd, parts, count, at); }
#define ALLOCATE(name) \
    int name(int fd, off_t at, off_t size) \
    { return is_full(fd, at + size) ? ENOSPC : REAL(name)(fd, at, size); }

WRITE(pwrite)
WRITE(pwrite64)
WRITE_PARTS(pwritev)
WRITE_PARTS(pwritev64)
ALLOCATE(posix_fallocate)
ALLOCATE(posix_fallocate64)
