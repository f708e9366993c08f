/* observe_process.c - reads what the system says about this process: memory, processor time, files
 * and threads. */
#include "server/observe/observe_process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void put(pal_buf *buf, const char *name, const char *type, const char *help, double value)
{
    pal_buf_format(buf, "# HELP %s %s\n# TYPE %s %s\n%s %.6g\n", name, help, name, type, name,
            value);
}

static void put_memory(pal_buf *buf)
{
    unsigned long long virtual_pages, pages;
    FILE *file = fopen("/proc/self/statm", "re");
    double page = (double)sysconf(_SC_PAGESIZE);
    if (file && fscanf(file, "%llu %llu", &virtual_pages, &pages) == 2) {
        pal_buf_format(buf,
                "# HELP process_virtual_memory_bytes Virtual memory size.\n"
                "# TYPE process_virtual_memory_bytes gauge\n"
                "process_virtual_memory_bytes %.0f\n"
                "# HELP process_resident_memory_bytes Resident memory size.\n"
                "# TYPE process_resident_memory_bytes gauge\n"
                "process_resident_memory_bytes %.0f\n",
                (double)virtual_pages * page, (double)pages * page);
    }
    if (file)
        fclose(file);
}

static void put_files(pal_buf *buf)
{
    struct rlimit limit;
    size_t len = 0;
    DIR *files = opendir("/proc/self/fd");
    if (files) {
        for (struct dirent *entry; (entry = readdir(files));)
            len += entry->d_name[0] != '.';
        closedir(files);
        put(buf, "process_open_fds", "gauge", "Open files and connections.", (double)len - 1);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        put(buf, "process_max_fds", "gauge", "Limit of open files and connections.",
                (double)limit.rlim_cur);
}

static void put_threads(pal_buf *buf)
{
    char line[256];
    unsigned threads;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "Threads: %u", &threads) == 1)
            put(buf, "process_threads", "gauge", "Threads.", threads);
    }
    if (file)
        fclose(file);
}

void pal_process_metrics_write(pal_buf *buf, int64_t started_at_ms)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) == 0)
        pal_buf_format(buf,
                "# HELP process_cpu_seconds_total Processor time of the process.\n"
                "# TYPE process_cpu_seconds_total counter\n"
                "process_cpu_seconds_total %.3f\n",
                (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                        (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    put_memory(buf);
    put_files(buf);
    put_threads(buf);
    pal_buf_format(buf,
            "# HELP process_start_time_seconds Start time of the process, in seconds since 1970.\n"
            "# TYPE process_start_time_seconds gauge\n"
            "process_start_time_seconds %.3f\n",
            (double)started_at_ms / 1000);
}
