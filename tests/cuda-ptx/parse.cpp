// Reads PTX.
#include "ptx.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <fstream>
#include <sstream>

namespace ptx {

static std::string demangled(const std::string & name) {
    char * s = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr);
    std::string r = s ? s : name;
    free(s);
    if (r.compare(0, 5, "void ") == 0) r.erase(0, 5);
    r = r.substr(0, r.find('('));
    for (const char * cast : { "(int)", "(bool)", "__" }) { // __half
        for (size_t at; (at = r.find(cast)) != std::string::npos;) r.erase(at, strlen(cast));
    }
    return r;
}

// the text without comments and line directives
static std::string text_of(const char * path) {
    std::ifstream f(path);
    std::string line, all;
    if (!f) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(2);
    }
    while (std::getline(f, line)) {
        line.erase(std::min(line.find("//"), line.size()));
        all += line + "\n";
    }
    return all;
}

static std::string trimmed(const std::string & s) {
    const size_t a = s.find_first_not_of(" \t\n"), b = s.find_last_not_of(" \t\n");
    return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

struct builder {
    kernel k;
    std::map<std::string, int> labels;
    std::map<std::string, uint64_t> symbols; // shared arrays and parameters
    std::vector<std::pair<int, std::string>> jumps;

    int reg(const std::string & name) {
        static const std::map<std::string, int> specials = { { "%tid.x", TID_X }, { "%ctaid.x", CTAID_X },
            { "%ctaid.y", CTAID_Y }, { "%ctaid.z", CTAID_Z }, { "%ntid.x", NTID_X }, { "%nctaid.x", NCTAID_X } };
        const auto s = specials.find(name);
        if (s != specials.end()) return s->second;
        const auto it = k.regs.find(name);
        if (it != k.regs.end()) return it->second;
        const int n = (int) k.regs.size() + N_SPECIAL;
        return k.regs[name] = n;
    }

    operand simple(const std::string & s) {
        operand o;
        if (s.compare(0, 2, "0f") == 0 || s.compare(0, 2, "0d") == 0) o.value = strtoull(s.c_str() + 2, nullptr, 16);
        else if (isdigit(s[0]) || s[0] == '-')
            o.value = s[0] == '-' ? (uint64_t) strtoll(s.c_str(), nullptr, 0) : strtoull(s.c_str(), nullptr, 0);
        else if (s.compare(0, 7, "__local") == 0) o.reg = LOCAL_BASE;
        else if (symbols.count(s)) o.value = symbols[s];
        else o.reg = reg(s);
        return o;
    }

    operand parsed(std::string s) {
        s = trimmed(s);
        operand o;
        if (s[0] == '{') {
            for (const std::string & x : split(s.substr(1, s.rfind('}') - 1))) o.parts.push_back(simple(trimmed(x)));
            return o;
        }
        if (s[0] == '[') {
            s = s.substr(1, s.rfind(']') - 1);
            const size_t plus = s.find('+');
            o = simple(trimmed(s.substr(0, plus)));
            if (plus != std::string::npos) o.value += strtoll(s.c_str() + plus + 1, nullptr, 0);
            o.address = true;
            return o;
        }
        if (s[0] == '!') {
            o = simple(s.substr(1));
            o.negated = true;
            return o;
        }
        return simple(s.substr(0, s.find('|'))); // the predicate of a shuffle is not asked for
    }

    // at commas outside of brackets
    static std::vector<std::string> split(const std::string & s) {
        std::vector<std::string> r(1);
        int depth = 0;
        for (char c : s) {
            depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
            if (c == ',' && depth == 0) r.emplace_back();
            else r.back() += c;
        }
        return r;
    }

    void statement(std::string s) {
        instr i;
        if (s[0] == '@') {
            const size_t end = s.find_first_of(" \t");
            i.guard_not = s[1] == '!';
            i.guard = reg(s.substr(i.guard_not ? 2 : 1, end - (i.guard_not ? 2 : 1)));
            s = trimmed(s.substr(end));
        }
        const size_t end = std::min(s.find_first_of(" \t\n{["), s.size());
        std::stringstream op(s.substr(0, end));
        for (std::string w; std::getline(op, w, '.');) i.word.push_back(w);
        const std::string rest = trimmed(s.substr(end));
        if (i.word[0] == "bra") jumps.push_back({ (int) k.code.size(), rest });
        else if (!rest.empty())
            for (const std::string & x : split(rest)) i.op.push_back(parsed(x));
        i.run = action_of(i);
        if (!i.run) k.unknown.push_back(s.substr(0, end));
        k.code.push_back(i);
    }

    // .local .align 8 .b8 name[bytes]; registers get their numbers as they are seen
    void declaration(const std::string & s) {
        if (s.compare(0, 6, ".local") == 0) k.local_bytes = strtoul(s.c_str() + s.find('[') + 1, nullptr, 10);
    }
    void shared_array(const std::string & name, size_t bytes) {
        k.shared_bytes = (k.shared_bytes + 127) / 128 * 128;
        symbols[name] = k.shared_bytes;
        k.shared_bytes += bytes;
    }

    void parameters(const std::string & s) {
        static const std::map<std::string, size_t> size = { { "u8", 1 }, { "u16", 2 }, { "u32", 4 }, { "f32", 4 },
            { "u64", 8 }, { "b32", 4 }, { "b64", 8 } };
        size_t at = 0;
        for (const std::string & p : split(s)) {
            std::stringstream in(p);
            std::string w, name;
            size_t align = 0, bytes = 0;
            while (in >> w) {
                if (w == ".align") in >> align;
                else if (w[0] == '.' && size.count(w.substr(1))) bytes = size.at(w.substr(1));
                else if (w[0] != '.') name = w;
            }
            const size_t open = name.find('[');
            if (open != std::string::npos) {
                bytes = strtoul(name.c_str() + open + 1, nullptr, 10);
                name.erase(open);
            } else if (align == 0) align = bytes;
            if (align == 0) return; // no parameters
            at = (at + align - 1) / align * align;
            symbols[name] = at;
            k.param.push_back(at);
            at += bytes;
        }
        k.param_bytes = at;
    }

    void body(const std::string & text) {
        std::string s;
        int depth = 0;
        for (char c : text) {
            if (depth == 0 && (c == '{' || c == '}') && (trimmed(s).empty())) continue; // a scope of inline assembly
            depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
            if (c == ':' && depth == 0) {
                labels[trimmed(s)] = (int) k.code.size();
                s.clear();
            } else if (c == ';') {
                s = trimmed(s);
                if (s[0] == '.') declaration(s);
                else if (!s.empty()) statement(s);
                s.clear();
            } else s += c;
        }
        for (auto & j : jumps) k.code[j.first].target = labels.at(j.second);
    }
};

// position behind the bracket that closes the one at `open`
static size_t closing(const std::string & s, size_t open) {
    int depth = 0;
    for (size_t i = open; i < s.size(); i++) {
        if (s[i] == s[open]) depth++;
        if (s[i] == (s[open] == '{' ? '}' : ')') && --depth == 0) return i;
    }
    return s.size();
}

// .shared .align 16 .b8 name[bytes]: arrays of the kernel come before the one of which the launch says how large it is
static void place_shared(builder & b, const std::string & text, const std::string & code) {
    for (const std::string * from : { &code, &text }) {
        for (size_t at = 0; (at = from->find(".shared .align", at)) != std::string::npos; at++) {
            const size_t open = from->find('[', at), space = from->find_last_of(" \t", open);
            const std::string name = from->substr(space + 1, open - space - 1);
            const size_t bytes = strtoul(from->c_str() + open + 1, nullptr, 10);
            if (from == &code) b.shared_array(name, bytes);
            else if (bytes == 0) b.symbols[name] = b.k.shared_bytes = (b.k.shared_bytes + 127) / 128 * 128;
        }
    }
}

void parse(const char * path, std::map<std::string, kernel> & kernels) {
    const std::string text = text_of(path);
    for (size_t at = 0; (at = text.find(".entry ", at)) != std::string::npos;) {
        const size_t open = text.find('(', at), close = closing(text, open), begin = text.find('{', close),
                     end = closing(text, begin);
        builder b;
        b.k.name = demangled(trimmed(text.substr(at + 7, open - at - 7)));
        const std::string code = text.substr(begin + 1, end - begin - 1);
        place_shared(b, text, code);
        b.parameters(text.substr(open + 1, close - open - 1));
        b.body(code);
        kernels[b.k.name] = b.k;
        at = end;
    }
}

} // namespace ptx
