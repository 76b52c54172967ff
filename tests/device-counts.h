// What a pass of the encoder costs a device that is not the CPU's memory: launches, splits, bytes over the bus.
#pragma once

// Encodes with models of `folder` (golden/models) on a fake device with its companion, prints a table, and checks each
// row against its limits. names: also the launches by operator.
void device_counts(const char * folder, int names);
