// Files and what folders hold, in the order of their names.
#pragma once

#include "mra-error.h"

struct path_list {
    char ** paths; // [n], owned
    int n, cap;
};

// A file is added as it is; of a folder all files below it whose name matches pattern (as in a shell; with a '/' in it,
// the path below the folder; NULL: all). Hidden files and folders and links to folders are left out.
enum mra_status path_list_add(struct path_list * list, const char * path, const char * pattern, struct mra_error * err);
void path_list_free(struct path_list * list);
