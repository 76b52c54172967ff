// A model's file is used in place. Where it is cut short meanwhile, or its disk fails, reading it raises SIGBUS: the
// program then ends with a line that says so and exit code 1. What was written before stays.
#pragma once

void bus_catch(const char * program); // program: lives as long as the process
