// Ctrl-C and its kin end a program after the record at hand; a second one ends it at once.
#pragma once

#include <stdbool.h>

void signals_catch(void); // also: a closed pipe and a full disk are errors of write(), not signals
bool interrupted(void);
