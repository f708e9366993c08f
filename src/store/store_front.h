/* store_front.h - what is behind the public handle. */
#ifndef PAL_STORE_FRONT_H
#define PAL_STORE_FRONT_H

#include "store/store_backend.h"
#include "store/store_writer.h"

struct pal_store {
    pal_engine *engine;
    pal_writer *writer;
    pal_store_options options; /* defaults already filled in */
};

#endif
