#include <gnu/libc-version.h>
#include <microhttpd.h>
#include <openssl/opensslv.h>
#include <sqlite3.h>
#include <stdio.h>

#include "measure.h"

/* gcc says it by macros, clang by features. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HOW ", with a sanitizer"
#elif defined(__OPTIMIZE__)
#define HOW ""
#else
#define HOW ", without optimization"
#endif

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

int measure_tools(void)
{
    return printf("%s, glibc %s, SQLite %s, libmicrohttpd %s, OpenSSL %d.%d%s\n", COMPILER,
                  gnu_get_libc_version(), sqlite3_libversion(), MHD_get_version(),
                  OPENSSL_VERSION_MAJOR, OPENSSL_VERSION_MINOR, HOW) < 0;
}
