// The model that the tests of quantization start from.
#pragma once

// RoBERTa of the folder `golden` with more matrices, whose rows fit some types and not others; exits on failure
void quantize_input_write(const char * golden, const char * path);
