/* palaver.h - everything that an embedding program needs. */
#ifndef PALAVER_H
#define PALAVER_H

#include "palaver/alloc.h"
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/config.h"
#include "palaver/context.h"
#include "palaver/error.h"
#include "palaver/foreign.h"
#include "palaver/id.h"
#include "palaver/limits.h"
#include "palaver/message.h"
#include "palaver/route.h"
#include "palaver/session.h"
#include "palaver/store.h"
#include "palaver/str.h"
#include "palaver/tokens.h"
#include "palaver/turn.h"
#include "palaver/window.h"

#endif
