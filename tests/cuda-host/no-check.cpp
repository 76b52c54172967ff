// What a test may ask where the checker is not linked in.
#include "host.h"

bool mra_host_checks(void) { return false; }
bool mra_host_traffic_get(int, struct mra_host_traffic *) { return false; }
void mra_host_traffic_print(int, double) {}
