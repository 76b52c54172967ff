// An interpreter of the PTX that nvcc makes of the kernels: a warp at a time, all its lanes in step as far as branches
// let them. Counts what warps execute. Memory is the host's own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ptx {

enum kind { MMA, LDMATRIX, SHARED, GLOBAL, EXCHANGE, BRANCH, ARITHMETIC, MOVE, N_KIND };

struct warp;
struct instr;
typedef void (*action)(warp & w, const instr & i, uint32_t lanes);

struct operand {
    int reg = -1; // -1: a constant
    uint64_t value = 0;
    std::vector<operand> parts; // of {a, b, ...}
    bool address = false;       // [reg + value]
    bool negated = false;       // !predicate
};

struct instr {
    action run = nullptr;
    enum kind kind = ARITHMETIC;
    std::vector<std::string> word; // of the opcode
    std::vector<operand> op;
    int guard = -1; // predicate register
    bool guard_not = false;
    int target = -1;       // of a branch
    int width = 0;         // bytes of each element of a load or store
    bool together = false; // all lanes have to be here
    bool barrier = false;  // all warps
    bool ends = false;
};

struct kernel {
    std::string name; // as the source has it: columns<64, false>
    std::vector<instr> code;
    std::map<std::string, int> regs;
    std::vector<size_t> param; // offsets
    size_t param_bytes = 0, shared_bytes = 0, local_bytes = 0;
    std::vector<std::string> unknown; // opcodes that the interpreter does not have
};

enum special { TID_X, CTAID_X, CTAID_Y, CTAID_Z, NTID_X, NCTAID_X, LOCAL_BASE, N_SPECIAL }; // the first registers

struct block {
    unsigned char * shared;
    const unsigned char * params;
    uint64_t * counts;     // [N_KIND] warp instructions
    uint64_t * read_bytes; // of global memory, in whole sectors of each request
    uint64_t * write_bytes;
};

struct warp {
    const kernel * k;
    struct block * b;
    std::vector<uint64_t> regs; // [register][lane]
    std::vector<unsigned char> local;
    int pc[32];
    uint32_t live;
    bool waits; // at a barrier of the block
};

// every kernel of a file, by its name
void parse(const char * path, std::map<std::string, kernel> & kernels);
action action_of(instr & i); // NULL: unknown; sets kind, width and the like

} // namespace ptx
