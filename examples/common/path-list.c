#include "path-list.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 64 };

struct walk {
    struct path_list * list;
    const char * pattern;
    size_t n_root; // bytes of a path up to the name below the folder that was asked for
    struct mra_error * err;
};

void path_list_free(struct path_list * list) {
    for (int i = 0; i < list->n; i++) free(list->paths[i]);
    free(list->paths);
    *list = (struct path_list) { 0 };
}

// takes path over
static enum mra_status add(struct path_list * list, char * path, struct mra_error * err) {
    if (path && list->n == list->cap) {
        const int cap = 2 * list->cap + 64;
        char ** p = realloc(list->paths, (size_t) cap * sizeof(*p));
        if (p) {
            list->paths = p;
            list->cap = cap;
        }
    }
    if (!path || list->n == list->cap) {
        free(path);
        return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    }
    list->paths[list->n++] = path;
    return MRA_OK;
}

static int by_name(const struct dirent ** a, const struct dirent ** b) { return strcmp((*a)->d_name, (*b)->d_name); }
static int is_visible(const struct dirent * d) { return d->d_name[0] != '.'; }

static enum mra_status walk_folder(struct walk * w, const char * path, int depth);

static enum mra_status walk_entry(struct walk * w, const char * folder, const char * name, int depth) {
    const bool slash = folder[strlen(folder) - 1] == '/';
    char * path = NULL;
    struct stat link, st;
    if (asprintf(&path, "%s%s%s", folder, slash ? "" : "/", name) < 0)
        return mra_fail(w->err, MRA_ERR_MEMORY, "out of memory");
    enum mra_status result = MRA_OK;
    const char * below = path + w->n_root + strspn(path + w->n_root, "/");
    if (lstat(path, &link) != 0 || stat(path, &st) != 0)
        result = mra_fail(w->err, MRA_ERR_IO, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(link.st_mode)) result = walk_folder(w, path, depth + 1);
    else if (S_ISREG(st.st_mode) &&
        (!w->pattern || fnmatch(w->pattern, strchr(w->pattern, '/') ? below : name, 0) == 0)) {
        return add(w->list, path, w->err);
    }
    free(path);
    return result;
}

static enum mra_status walk_folder(struct walk * w, const char * path, int depth) {
    if (depth > MAX_DEPTH) return mra_fail(w->err, MRA_ERR_IO, "%s: more than %d folders deep", path, MAX_DEPTH);
    struct dirent ** names;
    const int n = scandir(path, &names, is_visible, by_name);
    if (n < 0) return mra_fail(w->err, MRA_ERR_IO, "%s: %s", path, strerror(errno));
    enum mra_status st = MRA_OK;
    for (int i = 0; i < n; i++) {
        if (st == MRA_OK) st = walk_entry(w, path, names[i]->d_name, depth);
        free(names[i]);
    }
    free(names);
    return st;
}

enum mra_status path_list_add(
    struct path_list * list, const char * path, const char * pattern, struct mra_error * err) {
    struct stat st;
    if (stat(path, &st) != 0) return mra_fail(err, MRA_ERR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return add(list, strdup(path), err);
    struct walk w = { list, pattern, strlen(path), err };
    const int before = list->n;
    const enum mra_status result = walk_folder(&w, path, 0);
    if (result == MRA_OK && list->n == before)
        return mra_fail(err, MRA_ERR_IO, "%s: no file%s%s", path, pattern ? " matches " : "", pattern ? pattern : "");
    return result;
}
