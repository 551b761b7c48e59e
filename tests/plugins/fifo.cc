// The shipped fifo as a plugin: the same policy on the other side of the border.
#include "policies/fifo/fifo.h"

#include "policies/api/plugin.h"

SCHEDTWIN_EXPORT_POLICY(schedtwin::FifoInfo());
