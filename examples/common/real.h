// Floats as text.
#pragma once

enum { REAL_TEXT_SIZE = 32 };

// Writes what printf("%.9g", x) writes, several times as fast; returns its length. 9 digits give the same float back.
int real_text(char to[REAL_TEXT_SIZE], float x);
