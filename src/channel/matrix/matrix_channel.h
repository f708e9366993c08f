/* matrix_channel.h - the kind "matrix" for the host of channels. */
#ifndef PAL_MATRIX_CHANNEL_H
#define PAL_MATRIX_CHANNEL_H

#include "channel/channel_kind.h"

extern const pal_channel_kind pal_channel_matrix;

#endif
