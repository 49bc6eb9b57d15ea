#!/usr/bin/env python3
"""Writes src/qinfer/_abi.py, the declarations of qinfer.h and qinfer_grammar.h for ctypes, out of the headers.

    make_abi.py [--check]

Needs a C compiler and pycparser. With --check nothing is written, and a file that is out of date is an error: the tests
run it so.
"""
import pathlib
import subprocess
import sys

from pycparser import c_ast, c_parser

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = pathlib.Path(__file__).with_name("src") / "qinfer" / "_abi.py"
SIMPLE = {"int32_t": "c_int32", "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64", "size_t": "c_size_t",
          "float": "c_float", "double": "c_double", "char": "c_char", "int": "c_int", "void": None,
          "qinfer_token": "c_int32", "qinfer_status": "c_int32"}
# Results that are no NUL-terminated text, or no address to read through.
NO_TEXT = ["qinfer_token_text", "qinfer_full_error_arg"]
HEAD = '''"""The C ABI, made out of qinfer.h and qinfer_grammar.h by make_abi.py. Do not edit.

Handles that functions take have their name in C; pointers to what a host passes through are c_void_p; text that comes in
is c_char_p.
"""
# fmt: off
# mypy: ignore-errors
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t,
                    c_uint32, c_uint64, c_void_p)

'''


def declarations():
    command = ["cc", "-E", "-P", "-DQINFER_PLAIN_C", "-I", str(ROOT / "include"), "-xc", "-"]
    source = subprocess.run(command, input="#include <qinfer/qinfer_grammar.h>\n", capture_output=True, text=True,
                            check=True).stdout
    # Plain C includes nothing: its parser needs to know that these are types.
    known = "".join(f"typedef int {name};\n" for name in SIMPLE if name.endswith("_t"))
    return c_parser.CParser().parse(known + source).ext


class Writer:
    def __init__(self):
        self.structs, self.pointers_to_functions = set(), {}
        self.lines, self.functions, self.constants = [], {}, {}

    def type_of(self, node):
        """The ctypes expression of a declared type."""
        if isinstance(node, c_ast.TypeDecl):
            name = " ".join(node.type.names)
            if name in self.structs:
                return f"{name}"
            return self.pointers_to_functions.get(name) or SIMPLE[name]
        if isinstance(node, c_ast.ArrayDecl):
            return f"{self.type_of(node.type)} * {node.dim.value}"
        if isinstance(node.type, c_ast.FuncDecl):
            return self.function_type(node.type)
        inner = node.type
        if isinstance(inner, c_ast.PtrDecl):
            return f"POINTER({self.type_of(inner)})"
        name = " ".join(inner.type.names)
        if name in self.structs:
            return f"POINTER({name})"
        if name == "char":
            return "c_char_p" if "const" in inner.quals else "c_void_p"
        return f"POINTER({SIMPLE[name]})" if SIMPLE.get(name) else "c_void_p"

    def function_type(self, node):
        return f"CFUNCTYPE({', '.join([str(self.type_of(node.type)), *self.callback_arguments(node)])})"

    def arguments(self, node):
        """Errors may also be the odd addresses of qinfer_full_error_arg."""
        listed = node.args.params if node.args else []
        return ["c_void_p" if one.name == "err" else self.type_of(one.type) for one in listed
                if not (isinstance(one.type, c_ast.TypeDecl) and one.type.type.names == ["void"])]

    def handle(self, node):
        """The name of the handle that a parameter is, or None."""
        pointed = node.type if isinstance(node, c_ast.PtrDecl) else None
        name = " ".join(pointed.type.names) if isinstance(pointed, c_ast.TypeDecl) else ""
        opaque = name.startswith("qinfer_") and name not in self.structs and name not in SIMPLE
        return f'"{name}"' if opaque and name != "qinfer_error" else None

    def function_arguments(self, node):
        handles = [self.handle(one.type) for one in (node.args.params if node.args else [])]
        return [handle or kind for handle, kind in zip(handles, self.arguments(node))]

    def callback_arguments(self, node):
        # ctypes makes bytes of a c_char_p that a callback is given, up to the first NUL: the address and the length are
        # what callbacks get.
        return ["c_void_p" if kind == "c_char_p" else kind for kind in self.arguments(node)]

    def struct(self, name, node):
        self.structs.add(name)
        # What has a length next to it may hold a NUL.
        names = ["text", *(field.name.removesuffix("_len") for field in node.decls if field.name.endswith("_len"))]
        kinds = [(field.name, "c_void_p" if field.name in names else self.type_of(field.type)) for field in node.decls]
        fields = "".join(f"        (\"{field}\", {kind}),\n" for field, kind in kinds)
        self.lines.append(f"\n\nclass {name}(Structure):\n    _fields_ = [\n{fields}    ]")

    def enum(self, node):
        value = -1
        for one in node.values.enumerators:
            if one.value is not None:
                value = eval(compile(_expression(one.value), "enum", "eval"), {}, {})
            else:
                value += 1
            if one.name.startswith("QINFER_"):
                self.constants[one.name] = value

    def read(self, node):
        if isinstance(node, c_ast.Typedef):
            kind = node.type.type if isinstance(node.type, c_ast.TypeDecl) else None
            if isinstance(kind, c_ast.Struct) and kind.decls and node.name.startswith("qinfer"):
                self.struct(node.name, kind)
            elif isinstance(node.type, c_ast.PtrDecl) and node.name.startswith("qinfer"):
                self.lines.append(f"\n\n{node.name} = {self.function_type(node.type.type)}")
                self.pointers_to_functions[node.name] = node.name
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Enum):
            self.enum(node.type)
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl) and node.name.startswith("qinfer_"):
            result = node.type.type
            kind = "c_void_p" if node.name in NO_TEXT else self.type_of(result)
            self.functions[node.name] = (kind, self.function_arguments(node.type))

    def text(self):
        constants = "".join(f"{name} = {value}\n" for name, value in self.constants.items())
        functions = "".join(f"    \"{name}\": ({result}, [{', '.join(arguments)}]),\n"
                            for name, (result, arguments) in self.functions.items())
        structs = "".join(self.lines).lstrip("\n")
        return f"{HEAD}{constants}\n\n{structs}\n\n\nFUNCTIONS = {{\n{functions}}}\n"


def _expression(node):
    import ast
    text = {c_ast.Constant: lambda n: n.value, c_ast.UnaryOp: lambda n: n.op + n.expr.value}[type(node)](node)
    return ast.parse(text, mode="eval")


def main():
    writer = Writer()
    for node in declarations():
        writer.read(node)
    if "--check" in sys.argv:
        if OUT.read_text() != writer.text():
            sys.exit(f"{OUT.name} is not what {pathlib.Path(__file__).name} makes of the headers: run it")
    else:
        OUT.write_text(writer.text())


if __name__ == "__main__":
    main()
