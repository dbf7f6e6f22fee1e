/* links: launcher/conf/linked tests/lib/{hurt,scratch} */
/* libs: -luv -ldl */
/*
 * Which MPI library a file names, of ELF files made here: whole ones, cut ones,
 * and ones with a wrong number in them.
 */
#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/conf/linked.h"
#include "tests/lib/elf_image.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define BASE   0x400000u /* where the file is in memory */
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
    "libmpifort.so.12",  "libmpicxx.so.12", "/opt/mpi/lib/libmpi.so.40",
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

/* -- files that are not whole ---------------------------------------------- */

TEST(test_linked_cut_files_tell_nothing)
{
    struct elf_image m = elf_image_of("libmpich.so.12");
    for (size_t len = 0; len < sizeof(m); len++) {
        put(&m, len);
        ck_assert_msg(library_of("file")[0] == '\0', "%zu bytes", len);
    }
    ck_assert_str_eq(library_in(&m), "libmpich.so.12");
}

#define WRONG(field, value)                                                    \
    {                                                                          \
#field " = " #value, offsetof(struct elf_image, field),                \
            sizeof(((struct elf_image *)NULL)->field), value                   \
    }

/* One number each. */
static const struct {
    const char *what;
    size_t at, len;
    uint64_t value; /* the first `len` bytes of it */
} wrong[] = {
    WRONG(head.e_ident[EI_MAG0], 0),
    WRONG(head.e_ident[EI_CLASS], ELFCLASS32),
    WRONG(head.e_ident[EI_DATA], ELFDATANONE),
    WRONG(head.e_phoff, 0),
    WRONG(head.e_phoff, INT64_MAX),
    WRONG(head.e_phoff, UINT64_MAX),
    WRONG(head.e_phentsize, sizeof(Elf32_Phdr)),
    WRONG(head.e_phnum, 0),
    WRONG(head.e_phnum, 1), /* the dynamic section is the second */
    WRONG(head.e_phnum, UINT16_MAX),
    WRONG(load.p_type, PT_NOTE),
    WRONG(load.p_vaddr, 0),
    WRONG(load.p_vaddr, UINT64_MAX),
    WRONG(load.p_filesz, 0),
    WRONG(load.p_filesz, offsetof(struct elf_image, texts)),
    WRONG(load.p_offset, INT64_MAX),
    WRONG(load.p_offset, UINT64_MAX - offsetof(struct elf_image, texts)),
    WRONG(dynamic.p_type, PT_NULL),
    WRONG(dynamic.p_offset, INT64_MAX),
    WRONG(dynamic.p_offset, UINT64_MAX),
    WRONG(dynamic.p_filesz, 0),
    WRONG(dynamic.p_filesz, sizeof(Elf64_Dyn) - 1),
    WRONG(dynamic.p_filesz, UINT64_MAX),
    WRONG(libc.d_tag, DT_NULL),
    WRONG(other.d_un.d_val, sizeof(((struct elf_image *)NULL)->texts)),
    WRONG(other.d_un.d_val, INT64_MAX),
    WRONG(other.d_un.d_val, UINT64_MAX),
    WRONG(texts_at.d_tag, DT_SYMTAB),
    WRONG(texts_at.d_un.d_val, 0),
    WRONG(texts_at.d_un.d_val, UINT64_MAX),
    WRONG(texts_len.d_tag, DT_SYMENT),
    WRONG(texts_len.d_un.d_val, 0),
    WRONG(texts_len.d_un.d_val, 25),         /* no NUL within it */
    WRONG(texts_len.d_un.d_val, UINT64_MAX), /* the file ends before it */
};

TEST_EACH(test_linked_wrong_numbers_tell_nothing, wrong)
{
    struct elf_image m = elf_image_of("libmpich.so.12");
    uint64_t value = wrong[_i].value;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value <<= 64 - 8 * wrong[_i].len;
#endif
    memcpy((char *)&m + wrong[_i].at, &value, wrong[_i].len);
    ck_assert_msg(library_in(&m)[0] == '\0', "%s", wrong[_i].what);
}

/* What is no regular file is not read, and a FIFO not waited for. */
TEST(test_linked_no_files_tell_nothing)
{
    static const char *const paths[] = {"gone", "folder", "fifo", "/dev/zero",
                                        "/proc/self/exe"};
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
    m.libc.d_tag = DT_DEBUG; /* each text that is read is wanted */
    put(&m, sizeof(m));
    hurt_each("test", 8, run, NULL, "open fstat pread");
}

SUITE("linked", "files", FIXTURE(scratch_enter, scratch_leave))
