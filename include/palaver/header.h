/* header.h - a header of an HTTP request or response. */
#ifndef PALAVER_HEADER_H
#define PALAVER_HEADER_H

#include "palaver/str.h"

typedef struct pal_header {
    pal_str name;
    pal_str value;
} pal_header;

#endif
