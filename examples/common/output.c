#include "output.h"
#include "clock.h"

#include <cjson/cJSON.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int write_errno; // of the first write that failed

bool output_flush(void) {
    if (!write_errno && (fflush(stdout) != 0 || ferror(stdout))) write_errno = errno ? errno : EIO;
    return !write_errno;
}

int output_close(const char * program, int code) {
    progress_clear();
    output_flush();
    if (fclose(stdout) != 0 && !write_errno) write_errno = errno;
    if (!write_errno || write_errno == EPIPE) return code;
    fprintf(stderr, "%s: cannot write to stdout: %s\n", program, strerror(write_errno));
    return code ? code : 1;
}

static void print_cell(const struct table_col * c, const char * s, bool last) {
    if (!s || !*s) s = "-";
    if (c->left) printf("%-*s%s", last ? 0 : c->width, s, last ? "\n" : "  ");
    else printf("%*s%s", c->width, s, last ? "\n" : "  ");
}
void table_head(const struct table_col * cols, int n) {
    for (int i = 0; i < n; i++) print_cell(&cols[i], cols[i].title, i + 1 == n);
}
void table_row(const struct table_col * cols, int n, char cells[][32]) {
    progress_clear();
    for (int i = 0; i < n; i++) print_cell(&cols[i], cells[i], i + 1 == n);
}

const char * fmt_real(char cell[32], double x, int digits) {
    const int whole = isfinite(x) && x != 0 ? (int) floor(log10(fabs(x))) + 1 : 1, after = digits - whole;
    if (!isfinite(x)) strcpy(cell, "-");
    else snprintf(cell, 32, "%.*f", after < 0 ? 0 : after > 9 ? 9 : after, x);
    return cell;
}

void json_real(struct cJSON * o, const char * name, double x, int digits) {
    char s[32];
    if (!isfinite(x)) {
        cJSON_AddNullToObject(o, name);
        return;
    }
    snprintf(s, sizeof(s), "%.*g", digits, x);
    cJSON_AddRawToObject(o, name, s);
}
void json_line(struct cJSON * o) {
    char * s = cJSON_PrintUnformatted(o);
    progress_clear();
    if (s) puts(s);
    free(s);
    cJSON_Delete(o);
}

static bool shown;

void progress(const char * fmt, ...) {
    if (!isatty(STDERR_FILENO)) return;
    va_list ap;
    va_start(ap, fmt);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fflush(stderr);
    shown = true;
}
void progress_clear(void) {
    if (!shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    shown = false;
}

static const char * fmt_time(char cell[32], double s) {
    const long long t = (long long) (s + .5);
    if (t >= 3600) snprintf(cell, 32, "%lld:%02lld:%02lld", t / 3600, t / 60 % 60, t % 60);
    else snprintf(cell, 32, "%lld:%02lld", t / 60, t % 60);
    return cell;
}

void progress_records(int64_t n, double fraction) {
    enum { WIDTH = 24 };
    static double first = -1, first_fraction, last;
    static int64_t first_n;
    const double now = now_ms() * 1e-3;
    if (first < 0) {
        first = now;
        first_n = n;
        first_fraction = fraction;
    }
    if (shown && now - last < .1) return;
    last = now;
    const double t = now - first, rate = t > 0 ? (double) (n - first_n) / t : 0, f = fraction > 1 ? 1 : fraction;
    char bar[WIDTH + 1], cell[32];
    if (f < 0) {
        progress("%lld records  %.1f/s  %s", (long long) n, rate, fmt_time(cell, t));
        return;
    }
    for (int i = 0; i < WIDTH; i++) bar[i] = i < (int) (f * WIDTH) ? '#' : '.';
    bar[WIDTH] = 0;
    const double left = f > first_fraction ? t * (1 - f) / (f - first_fraction) : -1;
    progress("[%s] %3.0f%%  %lld records  %.1f/s  ETA %s", bar, 100 * f, (long long) n, rate,
        left < 0 ? "?" : fmt_time(cell, left));
}
