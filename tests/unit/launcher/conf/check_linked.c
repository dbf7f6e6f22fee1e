/* links: launcher/conf/linked tests/lib/{hurt,scratch} */
/* libs: -luv -ldl */
/* Which MPI library a file names, of files made here: whole ones, cut ones, and
 * ones with other texts in them. */
#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/conf/linked.h"
#include "tests/lib/elf_image.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define LEN(a) ((int)(sizeof(a) / sizeof((a)[0])))

static void put(const void *data, size_t len)
{
    int fd = open("file", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, data, len), (ssize_t)len);
    ck_assert_int_eq(close(fd), 0);
}

/* Its library; "": none. */
static const char *library_of(const char *path)
{
    static char name[LINKED_NAME_MAX];
    memset(name, 'x', sizeof(name));
    bool found = linked_mpi(path, name);
    ck_assert_int_eq(found, name[0] != '\0');
    return name;
}

static const char *library_in(const struct elf_image *m)
{
    put(m, sizeof(*m));
    return library_of("file");
}

/* -- names ----------------------------------------------------------------- */

static const char *const mpis[] = {
    "libmpi.so.40",      "libmpi.so.12",    "libmpi_cxx.so.40",
    "libmpi_cray.so.12", "libmpich.so.12",  "libmpichfort.so.12",
    "libmpifort.so.12",  "libmpicxx.so.12",
};

TEST_EACH(test_linked_mpi_is_named, mpis)
{
    struct elf_image m = elf_image_of(mpis[_i]);
    ck_assert_str_eq(library_in(&m), mpis[_i]);
}

static const char *const others[] = {
    "",
    "libm.so.6",
    "libmpi",
    "libmpir.so.23",
    "libmpdec.so.3",
    "/opt/libmpi.so/libc.so.6",
    "my-libmpi.so.40",
};

TEST_EACH(test_linked_others_are_no_mpi, others)
{
    struct elf_image m = elf_image_of(others[_i]);
    ck_assert_str_eq(library_in(&m), "");
}

/* -- other files ----------------------------------------------------------- */

/* As long as the name is not whole. */
TEST(test_linked_cut_files_tell_nothing)
{
    struct elf_image m = elf_image_of("libmpich.so.12");
    size_t whole = offsetof(struct elf_image, texts) + sizeof("\0libc.so.6") +
                   sizeof("libmpich.so.12");
    for (size_t len = 0; len <= sizeof(m); len++) {
        put(&m, len);
        ck_assert_msg((library_of("file")[0] != '\0') == (len >= whole),
                      "%zu bytes", len);
    }
}

/* A longer name than there is room for is passed over, also at the end. */
TEST(test_linked_long_names_are_no_mpi)
{
    char file[300] = ELFMAG;
    memset(file + SELFMAG + 1, 'x', 100);
    memcpy(file + SELFMAG + 1, "libmpi.so.", 10);
    put(file, SELFMAG + 100);
    ck_assert_str_eq(library_of("file"), "");
    put(file, sizeof(file));
    ck_assert_str_eq(library_of("file"), "");
    memcpy(file + 200, "libmpi.so.12", 12);
    put(file, sizeof(file));
    ck_assert_str_eq(library_of("file"), "libmpi.so.12");
}

TEST(test_linked_only_the_first_mib_of_an_elf_file_tells)
{
    struct elf_image m = elf_image_of("libmpich.so.12");
    m.head[EI_MAG0] = 0;
    ck_assert_str_eq(library_in(&m), "");
    static char big[1024 * 1024 + 100] = ELFMAG;
    memcpy(big + 1024 * 1024 - 8, "libmpi.so.12", 12);
    put(big, sizeof(big));
    ck_assert_str_eq(library_of("file"), "");
    memcpy(big + 1024 * 1024 - 13, "libmpi.so.40", 13);
    put(big, sizeof(big));
    ck_assert_str_eq(library_of("file"), "libmpi.so.40");
}

/* What is no regular file is not read, and a FIFO not waited for. */
TEST(test_linked_no_files_tell_nothing)
{
    static const char *const paths[] = {"gone", "folder", "fifo", "/dev/zero",
                                        "/bin/sh"};
    ck_assert_int_eq(mkdir("folder", 0700), 0);
    ck_assert_int_eq(mkfifo("fifo", 0600), 0);
    for (int i = 0; i < LEN(paths); i++)
        ck_assert_msg(library_of(paths[i])[0] == '\0', "%s", paths[i]);
    static const char script[] = "#!/bin/sh\nexec ./libmpich.so.12\n";
    put(script, sizeof(script) - 1);
    ck_assert_str_eq(library_of("file"), "");
}

/* -- faults ---------------------------------------------------------------- */

/* A hint only: nothing is said, and nothing is left open. */
static int run(void *ctx)
{
    char name[LINKED_NAME_MAX];
    int open_before = fault_descriptors();
    (void)ctx;
    bool found = linked_mpi("file", name);
    if (found == (fault_struck() > 0) || found != (name[0] != '\0'))
        return hurt_wrong(found ? name : "no library is found");
    return fault_descriptors() == open_before ? HURT_DONE : HURT_LEAK;
}

CASE("faults", FAULT_CASE(60), FIXTURE(scratch_enter, scratch_leave))

TEST(test_linked_faults)
{
    struct elf_image m = elf_image_of("libmpich.so.12");
    put(&m, sizeof(m));
    hurt_each("test", 8, run, NULL, "open fstat pread");
}

SUITE("linked", "files", FIXTURE(scratch_enter, scratch_leave))
