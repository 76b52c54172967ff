// Files of the tests of quantization.
#pragma once

extern char quantize_folder[], quantize_in[], quantize_out[], quantize_other[]; // a temporary folder, paths in it

// Writes the input: RoBERTa of the folder `golden` with more matrices, whose rows fit some types and not others. Exits
// on failure
void quantize_files_open(const char * program, const char * golden);
void quantize_files_close(void); // nothing else must be left in the folder
