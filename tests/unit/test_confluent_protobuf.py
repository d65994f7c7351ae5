"""Protobuf schemas: the text that Confluent's registry hashes, its formats, and its differences."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.formats.confluent.protobuf import canonical, formatted, incompatibilities
from catalog.formats.confluent.questions import SchemaDocument
from catalog.formats.documenttext import MalformedDocument

WRITTEN = """
// The orders of a shop.
syntax = "proto3"; package shop.v1 ;
import "google/protobuf/timestamp.proto"; import public 'shop//money.proto';
option java_package = 'com.shop'; option (confluent.file_meta).doc = "the \\x22shop\\"";
enum Kind {
  option allow_alias = true; UNKNOWN = 0; NEW = 1 [deprecated = true]; reserved -5 to -2; OLD = 0x1;
}
message Order { /* an order */ reserved 6, 8 to 10, 1000 to max; reserved "was", 'gone';
  option deprecated = true;
  repeated Line lines = 3 [(confluent.field_meta) = {
    doc: 'all' tags: ["A", "B"], params: [{key: "k", value: "v"}]
  }];
  string id = 1 [json_name = "ID", deprecated = false];
  map < string , Line.Unit > units = 2;
  oneof payer { option (mark) = 5; string person = 5; google.protobuf.Timestamp at = 4; }
  optional Money total = 7;
  message Line { enum Unit { PIECE = 0; } message Empty {} Unit unit = 1; reserved 2; };
}
service Orders {
  option deprecated = true;
  rpc Put (stream Order) returns (Order.Line) { option idempotency_level = IDEMPOTENT; }
  rpc Get(.shop.v1.Order) returns (stream Order) {}
}
"""
MONEY = 'syntax = "proto3";\npackage shop.v1;\n\nmessage Money {\n  int64 cents = 1;\n}\n'
REFERENCES = {"shop/money.proto": MONEY}

CANONICAL = r"""syntax = "proto3";
package shop.v1;

import "google/protobuf/timestamp.proto";
import public "shop/money.proto";

option java_package = "com.shop";
option (confluent.file_meta).doc = "the \"shop\"";

message Order {
  reserved 6, 8 to 10, 1000 to max;
  reserved "was", "gone";

  option deprecated = true;

  repeated Line lines = 3 [(confluent.field_meta) = {
    doc: "all",
    tags: [
      "A",
      "B"
    ],
    params: [
      {
        key: "k",
        value: "v"
      }
    ]
  }];
  string id = 1 [
    deprecated = false,
    json_name = "ID"
  ];
  map<string, Line.Unit> units = 2;
  optional Money total = 7;

  oneof payer {
    option (mark) = 5;
~~
    string person = 5;
    google.protobuf.Timestamp at = 4;
  }

  message Line {
    reserved 2;
~~
    Unit unit = 1;
~~
    message Empty {}
    enum Unit {
      PIECE = 0;
    }
  }
}
enum Kind {
  reserved -5 to -2;
  option allow_alias = true;
  UNKNOWN = 0;
  NEW = 1 [deprecated = true];
  OLD = 1;
}

service Orders {
  option deprecated = true;

  rpc Put (stream Order) returns (Order.Line) {
    option idempotency_level = IDEMPOTENT;
  };
  rpc Get (.shop.v1.Order) returns (stream Order);
}
""".replace("~~", "  ")

NORMAL = r"""syntax = "proto3";
package shop.v1;

import "google/protobuf/timestamp.proto";
import public "shop/money.proto";

option (confluent.file_meta) = {
  doc: "the \"shop\""
};
option java_package = "com.shop";

message Order {
  reserved 6;
  reserved 8 to 10;
  reserved 1000 to max;
  reserved "gone";
  reserved "was";

  option deprecated = true;

  string id = 1 [
    deprecated = false,
    json_name = "ID"
  ];
  map<string, .shop.v1.Order.Line.Unit> units = 2;
  repeated .shop.v1.Order.Line lines = 3 [(confluent.field_meta) = {
    doc: "all",
    params: {
      key: "k",
      value: "v"
    },
    tags: [
      "A",
      "B"
    ]
  }];
  optional .shop.v1.Money total = 7;

  oneof payer {
    option (mark) = 5;
~~
    .google.protobuf.Timestamp at = 4;
    string person = 5;
  }

  message Line {
    reserved 2;
~~
    .shop.v1.Order.Line.Unit unit = 1;
~~
    message Empty {}
    enum Unit {
      PIECE = 0;
    }
  }
}
enum Kind {
  reserved -5 to -2;
  option allow_alias = true;
  UNKNOWN = 0;
  NEW = 1 [deprecated = true];
  OLD = 1;
}

service Orders {
  option deprecated = true;

  rpc Put (stream .shop.v1.Order) returns (.shop.v1.Order.Line) {
    option idempotency_level = IDEMPOTENT;
  };
  rpc Get (.shop.v1.Order) returns (stream .shop.v1.Order);
}
""".replace("~~", "  ")


def test_a_file_is_written_in_the_order_and_the_layout_of_confluent() -> None:
    assert canonical(WRITTEN, REFERENCES, normalize=False) == CANONICAL


def test_a_normalized_file_has_full_names_and_is_sorted() -> None:
    assert canonical(WRITTEN, REFERENCES, normalize=True) == NORMAL
    assert canonical(NORMAL, REFERENCES, normalize=False) == NORMAL


# A file and its text; a file that states no syntax begins with a blank line.
TEXTS = [
    ("message A {}", "\nmessage A {}\n"),
    ('syntax = "proto2"; package a;', 'syntax = "proto2";\npackage a;\n'),
    (
        "message A { repeated group G = 1 { required string s = 2; optional .A b = 3; } }",
        """
message A {
  repeated group G = 1 {
    required string s = 2;
    optional .A b = 3;
  }
}
""",
    ),
    (
        'message A { optional string s = 1 [default = "a\\tb"]; optional E e = 2 [default = F];'
        " optional double d = 3 [default = -inf]; optional bool b = 4 [packed = false,"
        ' default=true, json_name="B"]; optional bytes y = 5 [default = "ab"]; enum E { F = 0; } }',
        """
message A {
  optional string s = 1 [default = "a\\tb"];
  optional E e = 2 [default = F];
  optional double d = 3 [default = -inf];
  optional bool b = 4 [
    packed = false,
    default = true,
    json_name = "B"
  ];
  optional bytes y = 5 [default = ab];

  enum E {
    F = 0;
  }
}
""",
    ),
    (
        "message A { extensions 100 to 199, 500, 600 to max; extend A { optional int32 n = 100; } }"
        " extend A { optional int32 m = 101 [(o) = 1]; } extend .A { repeated A a = 102; }",
        """
message A {
  extensions 100 to 199, 500, 600 to max;

  extend A {
    optional int32 n = 100;
  }
}

extend A {
  optional int32 m = 101 [(o) = 1];
}
extend .A {
  repeated A a = 102;
}
""",
    ),
    (
        "option (a).(b.c).d = FOO; option (e) = [1, {f: true, [g.h]: -2.5e3, i {}}, 'j'];"
        " option k = {l: 1 l: 2; l: [3], m.n: 4, o: []};",
        """
option (a).(b.c).d = FOO;
option (e) = [
  1,
  {
    f: true,
    [g.h]: -2.5e3,
    i: {
    }
  },
  "j"
];
option k = {
  l: [
    1,
    2,
    3
  ],
  m.n: 4,
  o: [
  ]
};
""",
    ),
    (
        "message A { oneof b { group C = 1 { optional int32 d = 2; } } }",
        """
message A {
  oneof b {
    group C = 1 {
      optional int32 d = 2;
    }
  }
}
""",
    ),
]


@pytest.mark.parametrize(("file", "text"), TEXTS)
def test_each_kind_of_declaration_is_written_as_by_confluent(file: str, text: str) -> None:
    assert canonical(file, {}, normalize=False) == text


# Two files with the same meaning, of which the second is the normal form.
NORMAL_FORMS = [
    ('syntax = "proto2"; message A { }', "\nmessage A {}\n"),
    (
        'import "b"; import "a"; import "b"; message A {}',
        '\nimport "a";\nimport "b";\n\nmessage A {}\n',
    ),
    (
        "message A { optional B b = 2; required int32 a = 1; message B { optional B b = 1; } }"
        " message B {}",
        """
message A {
  required int32 a = 1;
  optional .A.B b = 2;

  message B {
    optional .A.B b = 1;
  }
}
message B {}
""",
    ),
    (
        "message A { repeated BEntry b = 1; message BEntry { option map_entry = true;"
        " optional string key = 1; optional A value = 2; } }",
        "\nmessage A {\n  map<string, .A> b = 1;\n}\n",
    ),
    (
        "message A { extensions 9 to 9, 5 to 7; extensions 3; } extend A { optional A b = 9; }"
        " extend .A { optional int32 c = 5; }",
        """
message A {
  extensions 3;
  extensions 5 to 7;
  extensions 9;
}

extend .A {
  optional int32 c = 5;
  optional .A b = 9;
}
""",
    ),
    (
        "enum E { A = 0; C = 2; B = 2 [deprecated = true, (e) = 2.50]; }"
        " extend google.protobuf.EnumValueOptions { optional float e = 50000; }",
        """
enum E {
  A = 0;
  B = 2 [
    deprecated = true,
    (e) = 2.5
  ];
  C = 2;
}

extend .google.protobuf.EnumValueOptions {
  optional float e = 50000;
}
""",
    ),
    (
        'package p; option (m).tags = "X"; option (.p.m).tags = "Y"; option (m).doc = "Z";'
        " extend google.protobuf.FileOptions { optional confluent.Meta m = 50000; }",
        """package p;

option (p.m) = {
  doc: "Z",
  tags: [
    "X",
    "Y"
  ]
};

extend .google.protobuf.FileOptions {
  optional .confluent.Meta m = 50000;
}
""",
    ),
]


@pytest.mark.parametrize(("file", "text"), NORMAL_FORMS)
def test_files_with_the_same_meaning_have_one_normal_form(file: str, text: str) -> None:
    assert canonical(file, {}, normalize=True) == text
    assert canonical(text, {}, normalize=True) == text
    assert canonical(text, {}, normalize=False) == text


# Java's numbers: octal, hexadecimal, floats of 32 bits, and three digits after the point.
NUMBERS = [
    ("42", "42"),
    ("-7", "-7"),
    ("010", "8"),
    ("09", "09"),
    ("0x1F", "31"),
    ("1.50", "1.5"),
    ("3.14159", "3.142"),
    ("0.0005", "0.001"),
    ("2.0005", "2"),
    ("-0.0", "-0"),
    ("1e3", "1000"),
    ("1e22", "9999999778196308000000"),
    ("16777217.5", "16777217.5"),
    ("100.0635", "100.063"),
    ("-0x10", "-16"),
    ("1e-400", "0"),
    ("3.4028235e38", "340282346638528860000000000000000000000"),
    ("1e39", "1000000000000000000000000000000000000000"),
    ("1.2345678901234567890", "1.235"),
    ("1e999999999", "1e999999999"),
    ("-inf", "-inf"),
    ("1.5f", "1.5f"),
    ("9007199254740993.5", "9007199254740993.5"),
]


@pytest.mark.parametrize(("number", "rounded"), NUMBERS)
def test_numbers_of_options_are_rounded_as_by_confluent(number: str, rounded: str) -> None:
    text = canonical(f"option a = {number};", {}, normalize=True)
    assert text == f"\noption a = {rounded};\n"


INVALID = [
    ("", "the schema is empty"),
    (" \n", "the schema is empty"),
    ("no schema", "Syntax error in :1:3: unexpected label: no"),
    ('{"type": "string"}', "Syntax error in :1:1: expected a word"),
    ('syntax = "proto4";', "unexpected syntax: proto4"),
    ('package a; syntax = "proto3";', "must be the first declaration"),
    ("message A {", "unexpected end of file"),
    ("message A {} enum A {}", "type A is already defined"),
    ("service A {} service A {}", "service A is already defined"),
    ("message A { int32 a = 1; }", "unexpected label: int32"),
    ('syntax = "proto3"; message A { required int32 a = 1; }', "'required' label forbidden"),
    ("message A { optional int32 1a = 1; }", "cannot start with a digit"),
    ("enum A { 1B = 1; }", "cannot start with a digit"),
    ("message A { optional int32 a = b; }", "expected an integer but was b"),
    ("message A { optional int32 a = 2147483648; }", "expected an integer but was 2147483648"),
    (f"message A {{ optional int32 a = {'9' * 5000}; }}", "expected an integer"),
    ("message A { repeated map<string, int32> a = 1; }", "'map' type cannot have label"),
    ("message A { map<bytes, int32> a = 1; }", "map key must be"),
    ("message A { reserved 1 2; }", "expected ',', ';', or 'to'"),
    ("message A { oneof b { repeated int32 a = 1; } }", "expected '='"),
    ("message A { optional group B = 1 { optional group C = 1 {} } }", "expected field"),
    ('message A { optional string a = 1 [default = "b', "unexpected end of file"),
    ("option a = [1 2];", "expected ',' or ']'"),
    ("import a; service S { message A {} }", "unexpected label: message"),
    ("service S { rpc A (B) return (B); }", "expected 'returns'"),
    ("service S { rpc A (B) returns (B) { deprecated = true; } }", "unexpected label: deprecated"),
    ("import 'a' /* b", "expected ';'"),
    ("message A { optional B b = 1; }", "Could not resolve type: B"),
    ("message A { map<string, string> b = 1; } extend C { optional A a = 1; }", "type: C"),
    ("service S { rpc A (B) returns (B); }", "Could not resolve type: B"),
    ('import "b.proto"; message A { optional b.B b = 1; }', "Could not resolve type: b.B"),
    (base64.b64encode(b"\x0a\xff").decode(), "Syntax error"),
    ("message A {" * 5000, "nested too deeply"),
    ("option a = " + "{b: " * 5000, "nested too deeply"),
    ("option a = " + "[" * 5000, "nested too deeply"),
]


@pytest.mark.parametrize(("text", "problem"), INVALID)
def test_a_text_that_confluent_refuses_is_malformed(text: str, problem: str) -> None:
    with pytest.raises(MalformedDocument, match=re.escape(problem)):
        canonical(text, {}, normalize=False)


# What protoc refuses, and Confluent accepts and may have stored.
LENIENT = [
    "message A { optional int32 a = 1; optional int32 a = 1; }",
    "message A { optional int32 a = 0; reserved 5 to 1; }",
    'import "missing.proto"; message A { optional google.protobuf.Any a = 1; }',
    "option no_such_option = true; enum A { B = 1; }",
    "message A { extensions 100 [declaration = {number: 100}]; }",
    'syntax = "proto3"; enum A {} ;;',
]


@pytest.mark.parametrize("text", LENIENT)
def test_what_confluent_accepts_is_no_malformed_text(text: str) -> None:
    assert canonical(text, {}, normalize=False)


def descriptor() -> FileDescriptorProto:
    """A descriptor as a client sends it; syntax 2 has no name."""
    file = FileDescriptorProto(name="a.proto", package="p", dependency=["b.proto", "c.proto"])
    file.public_dependency.append(1)
    file.options.go_package = "g"
    file.options.java_package = "j"
    file.options.optimize_for = file.options.CODE_SIZE
    message = file.message_type.add(name="M")
    message.reserved_range.add(start=5, end=6)
    message.reserved_range.add(start=7, end=10)
    message.reserved_name.append("r")
    message.extension_range.add(start=100, end=200)
    message.oneof_decl.add(name="o")
    message.oneof_decl.add(name="empty")
    add = message.field.add
    kind = FieldDescriptorProto
    add(name="a", number=1, label=kind.LABEL_REQUIRED, type=kind.TYPE_STRING, default_value="d")
    add(name="b", number=2, label=kind.LABEL_OPTIONAL, type=kind.TYPE_INT32, oneof_index=0)
    repeated = add(name="m", number=3, label=kind.LABEL_REPEATED, type=kind.TYPE_MESSAGE)
    repeated.type_name = ".p.M"
    repeated.json_name = "J"
    repeated.options.deprecated = True
    enum = message.enum_type.add(name="E")
    enum.options.allow_alias = True
    enum.reserved_range.add(start=2, end=2)
    enum.value.add(name="A", number=0).options.deprecated = True
    extension = file.extension.add(name="x", number=100, label=kind.LABEL_OPTIONAL)
    extension.type, extension.extendee = kind.TYPE_BOOL, ".p.M"
    method = file.service.add(name="S").method.add(name="R", input_type=".p.M", output_type=".p.M")
    method.server_streaming = True
    method.options.idempotency_level = method.options.IDEMPOTENT
    return file


DESCRIBED = """package p;

import "b.proto";
import public "c.proto";

option java_package = "j";
option optimize_for = CODE_SIZE;
option go_package = "g";

message M {
  reserved 5;
  reserved 7 to 9;
  reserved "r";

  required string a = 1 [default = "d"];
  repeated .p.M m = 3 [
    deprecated = true,
    json_name = "J"
  ];

  oneof o {
    int32 b = 2;
  }

  extensions 100 to 199;

  enum E {
    reserved 2;
    option allow_alias = true;
    A = 0 [deprecated = true];
  }
}

extend .p.M {
  optional bool x = 100;
}

service S {
  rpc R (.p.M) returns (stream .p.M) {
    option idempotency_level = IDEMPOTENT;
  };
}
"""


def test_a_descriptor_in_base64_is_written_as_text() -> None:
    text = base64.b64encode(descriptor().SerializeToString()).decode()
    assert canonical(text, {}, normalize=False) == DESCRIBED
    assert canonical(text.rstrip("="), {}, normalize=False) == DESCRIBED


def test_a_descriptor_of_syntax_3_has_no_default_labels() -> None:
    file = FileDescriptorProto(syntax="proto3")
    fields = file.message_type.add(name="M").field
    kind = FieldDescriptorProto
    fields.add(name="a", number=1, label=kind.LABEL_OPTIONAL, type=kind.TYPE_INT32)
    present = fields.add(name="b", number=2, label=kind.LABEL_OPTIONAL, type=kind.TYPE_INT32)
    present.oneof_index, present.proto3_optional = 0, True
    file.message_type[0].oneof_decl.add(name="_b")
    text = canonical(base64.b64encode(file.SerializeToString()).decode(), {}, normalize=False)
    assert text == (
        'syntax = "proto3";\n\nmessage M {\n  int32 a = 1;\n  optional int32 b = 2;\n}\n'
    )


@pytest.mark.parametrize(
    "type",
    ["google.protobuf.Timestamp", "google.type.Money", "confluent.type.Decimal", "confluent.Meta"],
)
def test_built_in_types_need_no_reference(type: str) -> None:
    text = f'syntax = "proto3"; package google.a; message A {{ {type} a = 1; }}'
    assert f"  .{type} a = 1;" in canonical(text, {}, normalize=True)


def test_types_of_references_are_found_by_their_full_names() -> None:
    text = 'syntax = "proto3"; package shop.v1.eu; import "m"; message A { Money a = 1; }'
    assert "  .shop.v1.Money a = 1;" in canonical(text, {"m": MONEY}, normalize=True)
    with pytest.raises(MalformedDocument, match="Could not resolve type: Money"):
        canonical(text, {}, normalize=False)
    with pytest.raises(MalformedDocument):
        canonical(text, {"m": "no schema"}, normalize=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the process that checks documents."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
def test_the_serialized_format_is_a_descriptor_without_references() -> None:
    text = canonical(WRITTEN, REFERENCES, normalize=False)
    serialized = formatted(text, REFERENCES, "serialized")
    file = FileDescriptorProto.FromString(base64.b64decode(serialized))
    assert file.package == "shop.v1"
    assert [*file.dependency] == ["google/protobuf/timestamp.proto", "shop/money.proto"]
    order = {field.name: field for field in file.message_type[0].field}
    assert order["total"].type_name == ".shop.v1.Money"
    assert order["total"].type == FieldDescriptorProto.TYPE_MESSAGE
    assert order["id"].json_name == "ID"
    assert not order["total"].HasField("json_name")
    # The tags of fields are in the descriptor, which clients apply rules by.
    assert b"\x1a\x01A\x1a\x01B" in order["lines"].options.SerializeToString()


@pytest.mark.usefixtures("folder")
def test_imports_without_a_reference_are_not_in_the_serialized_format() -> None:
    text = 'syntax = "proto3"; import "missing.proto"; import "../up.proto"; message A {}'
    serialized = formatted(text, {"../up.proto": MONEY, "/abs.proto": MONEY}, "serialized")
    assert not FileDescriptorProto.FromString(base64.b64decode(serialized)).dependency


@pytest.mark.usefixtures("folder")
def test_a_normalized_enum_with_negative_numbers_has_a_serialized_format() -> None:
    text = canonical('syntax = "proto3"; enum A { B = 0; C = -1; }', {}, normalize=True)
    assert text.index("C = -1") < text.index("B = 0")
    file = FileDescriptorProto.FromString(base64.b64decode(formatted(text, {}, "serialized")))
    assert [one.number for one in file.enum_type[0].value] == [0, -1]


@pytest.mark.usefixtures("folder")
def test_what_protoc_refuses_has_no_serialized_format() -> None:
    with pytest.raises(MalformedDocument, match="already been used"):
        formatted("message A { optional int32 a = 1; optional int32 b = 1; }", {}, "serialized")


def test_extensions_and_options_of_others_are_left_out() -> None:
    text = (
        "option (a) = 1; option (confluent.file_meta).doc = 'b'; message A { extensions 9;"
        " optional int32 c = 1 [(d) = 2]; extend A { optional int32 e = 9; } }"
        " extend A { optional int32 f = 9; }"
    )
    assert formatted(text, {}, "ignore_extensions") == (
        '\noption (confluent.file_meta).doc = "b";\n\nmessage A {\n  optional int32 c = 1;\n}\n'
    )


@pytest.mark.parametrize("format", ["", "default", "resolved", "SERIALIZED"])
def test_other_formats_are_the_text_as_it_is(format: str) -> None:
    assert formatted(CANONICAL, REFERENCES, format) == CANONICAL


def kinds(
    writer: str,
    reader: str,
    written: Mapping[str, str] | None = None,
    read: Mapping[str, str] | None = None,
) -> list[str]:
    """The kinds and the paths of the differences of two files of syntax 3, if none is stated.

    `written` and `read` are the references of the writer and of the reader.
    """
    found = incompatibilities(
        SchemaDocument(of_syntax(reader), read or {}),
        SchemaDocument(of_syntax(writer), written or {}),
    )
    parts = [re.match(r'\{errorType:"(\w+)", description:".*?\'#/(.*?)\'', one) for one in found]
    return [f"{part[1]} {part[2]}".strip() for part in parts if part]


def of_syntax(text: str) -> str:
    return text if text.startswith("syntax") else f'syntax = "proto3"; {text}'


TWO = 'syntax = "proto2"; '
ONEOF = "message M { oneof o { string a = 1; string b = 2; int32 c = 3; } }"

# The writer's file, the reader's, and the differences in this and in the other direction.
CHANGES: list[tuple[str, str, Sequence[str], Sequence[str]]] = [
    ("message M { int32 a = 1; }", "message M { int32 a = 1; string b = 2; }", [], []),
    ("message M { int32 a = 1; }", "message M { int32 b = 2; }", [], []),
    ("message M { int32 a = 1; }", "message M { int32 b = 1; }", [], []),
    ("message M {}", "message N {} message M {}", [], ["MESSAGE_REMOVED N"]),
    ("message M {} message N {}", "message N {} message M {}", [], []),
    (
        "message M { N n = 1; message N {} }",
        "message M {}",
        ["MESSAGE_REMOVED M/N"],
        [],
    ),
    ("message M {}", "enum M { A = 0; }", ["MESSAGE_REMOVED M"], []),
    (
        "package a; message M {}",
        "package b; message M {}",
        ["PACKAGE_CHANGED"],
        ["PACKAGE_CHANGED"],
    ),
    ("message M {}", "package a; message M {}", ["PACKAGE_CHANGED"], ["PACKAGE_CHANGED"]),
    (
        "package a; message M { .a.M.N n = 1; message N {} }",
        "package b; message M { .b.M.N n = 1; message N {} }",
        ["PACKAGE_CHANGED"],
        ["PACKAGE_CHANGED"],
    ),
    (
        "package a; message M { N n = 1; map<string, N> m = 2; message N {} }",
        "package a; message M { .a.M.N n = 1; map<string, M.N> m = 2; message N {} }",
        [],
        [],
    ),
    (
        f"{TWO}message M {{ optional int32 a = 1; }}",
        f"{TWO}message M {{ optional int32 a = 1; required int32 b = 2; }}",
        ["REQUIRED_FIELD_ADDED M/2"],
        ["REQUIRED_FIELD_REMOVED M/2"],
    ),
    (
        f"{TWO}message M {{ optional int32 a = 1; }}",
        f"{TWO}message M {{ required int32 a = 1; }}",
        ["FIELD_NUMERIC_LABEL_CHANGED M/1"],
        ["FIELD_NUMERIC_LABEL_CHANGED M/1"],
    ),
    (
        f"{TWO}message M {{ required int32 a = 1; oneof o {{ int32 b = 2; }} }}",
        f"{TWO}message M {{ oneof o {{ int32 a = 1; }} required int32 b = 2; }}",
        ["ONEOF_FIELD_REMOVED M/o/2", "REQUIRED_FIELD_ADDED M/2"],
        ["ONEOF_FIELD_REMOVED M/o/1", "REQUIRED_FIELD_ADDED M/1"],
    ),
    ("message M { string a = 1; }", f"{TWO}message M {{ optional bytes a = 1; }}", [], []),
    (
        "message M { optional int32 a = 1; }",
        "message M { repeated int32 a = 1; }",
        ["FIELD_NUMERIC_LABEL_CHANGED M/1"],
        ["FIELD_NUMERIC_LABEL_CHANGED M/1"],
    ),
    ("message M { int32 a = 1; }", "message M { repeated int32 a = 1; }", [], []),
    ("message M { optional string a = 1; }", "message M { repeated string a = 1; }", [], []),
    ("message M { optional M a = 1; }", "message M { repeated M a = 1; }", [], []),
    (
        "message M { optional E a = 1; enum E { A = 0; } }",
        "message M { repeated E a = 1; enum E { A = 0; } }",
        ["FIELD_NUMERIC_LABEL_CHANGED M/1"],
        ["FIELD_NUMERIC_LABEL_CHANGED M/1"],
    ),
    (
        "message M { E a = 1; } enum E { A = 0; B = 1; }",
        "message M { int64 a = 1; } enum F { A = 0; }",
        [],
        [],
    ),
    (
        "message M { E a = 1; enum E { A = 0; B = 1; } }",
        "message M { E a = 1; enum E { A = 0; C = 1; D = 2; } }",
        [],
        [],
    ),
    (
        "message M { int32 a = 1; }",
        "message M { .M.N a = 1; message N {} } enum N { A = 0; }",
        ["FIELD_KIND_CHANGED M/1"],
        ["FIELD_KIND_CHANGED M/1", "MESSAGE_REMOVED M/N"],
    ),
    (
        "message M { N a = 1; } message N {}",
        "message M { O a = 1; } message O {}",
        ["FIELD_NAMED_TYPE_CHANGED M/1", "MESSAGE_REMOVED N"],
        ["FIELD_NAMED_TYPE_CHANGED M/1", "MESSAGE_REMOVED O"],
    ),
    (
        "message M { map<string, int32> a = 1; }",
        "message M { map<string, string> a = 1; }",
        ["FIELD_SCALAR_KIND_CHANGED M/1"],
        ["FIELD_SCALAR_KIND_CHANGED M/1"],
    ),
    ("message M { map<int32, M> a = 1; }", "message M { map<bool, .M> b = 1; }", [], []),
    (
        "message M { map<string, string> a = 1; }",
        "message M { string a = 1; }",
        ["FIELD_KIND_CHANGED M/1"],
        ["FIELD_KIND_CHANGED M/1"],
    ),
    (
        "message M { map<string, int32> a = 1; }",
        "message M { repeated AEntry a = 1; message AEntry { option map_entry = true;"
        " string key = 1; int64 value = 2; } }",
        [],
        [],
    ),
    (
        "message M { M.N n = 1; message N { int32 a = 1; } }",
        "message M { M.N n = 1; message N { string a = 1; } }",
        ["FIELD_SCALAR_KIND_CHANGED M/N/1"],
        ["FIELD_SCALAR_KIND_CHANGED M/N/1"],
    ),
    (
        "message M { M m = 1; int32 a = 2; }",
        "message M { M m = 1; string a = 2; }",
        ["FIELD_SCALAR_KIND_CHANGED M/2"],
        ["FIELD_SCALAR_KIND_CHANGED M/2"],
    ),
    (
        "message M { oneof o { string a = 1; string b = 2; } }",
        ONEOF,
        [],
        ["ONEOF_FIELD_REMOVED M/o/3"],
    ),
    (
        "message M { string a = 1; }",
        "message M { oneof o { string a = 1; int32 b = 2; } }",
        [],
        [],
    ),
    (
        "message M { string a = 1; string b = 2; }",
        ONEOF,
        ["MULTIPLE_FIELDS_MOVED_TO_ONEOF M/o"],
        [],
    ),
    (
        "message M { string a = 1; oneof o { string b = 2; } }",
        ONEOF,
        ["FIELD_MOVED_TO_EXISTING_ONEOF M/o"],
        ["ONEOF_FIELD_REMOVED M/o/1", "ONEOF_FIELD_REMOVED M/o/3"],
    ),
    (
        "message M { string a = 1; oneof p { string b = 2; } }",
        ONEOF,
        ["FIELD_MOVED_TO_EXISTING_ONEOF M/o"],
        [],
    ),
    ("message M { oneof o { string a = 1; } }", "message M { oneof p { string a = 1; } }", [], []),
    (
        "message M { oneof o { string a = 1; } int32 b = 2; }",
        "message M { oneof p { int32 a = 1; } oneof q { string b = 2; } }",
        ["FIELD_SCALAR_KIND_CHANGED M/1", "FIELD_SCALAR_KIND_CHANGED M/2"],
        ["FIELD_SCALAR_KIND_CHANGED M/1", "FIELD_SCALAR_KIND_CHANGED M/2"],
    ),
    (
        "message M { oneof o { string a = 1; } }",
        "message M { oneof o { int32 a = 1; } }",
        ["FIELD_SCALAR_KIND_CHANGED M/o/1"],
        ["FIELD_SCALAR_KIND_CHANGED M/o/1"],
    ),
    (
        "message M {} service S { rpc R (M) returns (M); }",
        "message M {} service S { rpc R (M) returns (stream M); rpc T (M) returns (M); }",
        [],
        [],
    ),
    ("message M { reserved 2; }", "message M { string a = 2; }", [], []),
]


@pytest.mark.parametrize(("writer", "reader", "there", "back"), CHANGES)
def test_each_change_is_compatible_or_not_as_at_confluent(
    writer: str, reader: str, there: Sequence[str], back: Sequence[str]
) -> None:
    assert kinds(writer, reader) == there
    assert kinds(reader, writer) == back


GROUPS = [
    "int32 int64 uint32 uint64 bool E",
    "sint32 sint64",
    "string bytes",
    "fixed32 sfixed32",
    "fixed64 sfixed64",
    "float",
    "double",
]


@pytest.mark.parametrize("is_of", GROUPS)
@pytest.mark.parametrize("was_of", GROUPS)
def test_types_of_a_group_are_interchangeable(was_of: str, is_of: str) -> None:
    for was in was_of.split():
        for is_now in is_of.split():
            texts = [f"message M {{ {type} a = 1; enum E {{ A = 0; }} }}" for type in (was, is_now)]
            assert kinds(*texts) == ([] if was_of == is_of else ["FIELD_SCALAR_KIND_CHANGED M/1"])


MAIN = 'import "{0}.proto"; message M {{ .{1}.N n = 1; }}'
HOME = 'syntax = "proto3"; package {0}; message N {{ {1} id = 1; }}'
NESTED = 'syntax = "proto3"; package {0}; message O {{ message N {{ {1} id = 1; }} }}'


def test_messages_of_references_are_compared_under_their_names() -> None:
    writer, reader = MAIN.format("a", "p"), MAIN.format("b", "q")
    old, same = {"a.proto": HOME.format("p", "int32")}, {"b.proto": HOME.format("q", "int32")}
    new = {"b.proto": HOME.format("q", "string")}
    assert kinds(writer, reader, written=old, read=same) == []
    assert kinds(writer, reader, written=old, read=new) == [
        "FIELD_SCALAR_KIND_CHANGED N/1",
        "FIELD_NAMED_TYPE_CHANGED M/1",
    ]


def test_nested_messages_of_references_are_compared_without_their_packages() -> None:
    writer, reader = MAIN.format("a", "p.O"), MAIN.format("a", "q.O")
    old, same = {"a.proto": NESTED.format("p", "int32")}, {"a.proto": NESTED.format("q", "bool")}
    new = {"a.proto": NESTED.format("q", "string")}
    assert kinds(writer, reader, written=old, read=same) == []
    assert kinds(writer, reader, written=old, read=new) == [
        "FIELD_SCALAR_KIND_CHANGED O/N/1",
        "FIELD_NAMED_TYPE_CHANGED M/1",
    ]


def test_a_message_may_move_to_a_reference_if_no_reader_misses_it() -> None:
    here, there = "message M { N n = 1; } message N { int32 id = 1; }", MAIN.format("a", "p")
    file = {"a.proto": HOME.format("p", "int32")}
    assert kinds(here, there, read=file) == ["MESSAGE_REMOVED N"]
    assert kinds(there, here, written=file) == []


def test_references_that_refer_to_each_other_are_compared_once() -> None:
    def ring(type: str) -> dict[str, str]:
        first = f"message N {{ R r = 1; R again = 2; {type} id = 3; }}"
        return {"a.proto": f'syntax = "proto3"; package p; {first} message R {{ N n = 1; }}'}

    main = MAIN.format("a", "p")
    assert kinds(main, main, written=ring("int32"), read=ring("bool")) == []
    assert kinds(main, main, written=ring("int32"), read=ring("string")) == [
        "FIELD_SCALAR_KIND_CHANGED N/3",
        "FIELD_NAMED_TYPE_CHANGED M/1",
    ]


def test_many_paths_to_a_message_of_references_take_little_time() -> None:
    levels = [f"message L{n} {{ L{n + 1} a = 1; L{n + 1} b = 2; }}" for n in range(40)]

    def file(type: str) -> dict[str, str]:
        messages = [*levels, f"message L40 {{ {type} a = 1; }}", "message N { L0 n = 1; }"]
        return {"a.proto": f'syntax = "proto3"; package p; {" ".join(messages)}'}

    main = MAIN.format("a", "p")
    assert len(kinds(main, main, written=file("int32"), read=file("string"))) < 100


MESSAGES = [
    (
        "package a; message M {}",
        "message M {}",
        """{errorType:"PACKAGE_CHANGED", description:"The package at '#/' in the %s schema does"""
        """ not match the package in the %s schema"}""",
    ),
    (
        "message M {}",
        "",
        """{errorType:"MESSAGE_REMOVED", description:"The %s schema is missing a MESSAGE type"""
        """ at path '#/M' in the %s schema"}""",
    ),
    (
        "message M { M a = 1; }",
        "message M { int32 a = 1; }",
        """{errorType:"FIELD_KIND_CHANGED", description:"The type of a field at path '#/M/1' in"""
        """ the %s schema does not match the %s schema"}""",
    ),
    (
        "message M { bool a = 1; }",
        "message M { float a = 1; }",
        """{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"The kind of a SCALAR field at"""
        """ path '#/M/1' in the %s schema does not match its kind in the %s schema"}""",
    ),
    (
        "message M { M a = 1; } message N {}",
        "message M { N a = 1; } message N {}",
        """{errorType:"FIELD_NAMED_TYPE_CHANGED", description:"The type of a MESSAGE field at"""
        """ path '#/M/1' in the %s schema does not match its type in the %s schema"}""",
    ),
    (
        "message M { optional int32 a = 1; }",
        "message M { repeated int32 a = 1; }",
        """{errorType:"FIELD_NUMERIC_LABEL_CHANGED", description:"The label for a NUMERIC field"""
        """ at path '#/M/1' in the %s schema does not match its label in the %s schema"}""",
    ),
    (
        f"{TWO}message M {{}}",
        f"{TWO}message M {{ required int32 a = 1; }}",
        """{errorType:"REQUIRED_FIELD_ADDED", description:"A required field  at path '#/M/1' in"""
        """ the %s schema is missing in the %s schema"}""",
    ),
    (
        f"{TWO}message M {{ required int32 a = 1; }}",
        f"{TWO}message M {{}}",
        """{errorType:"REQUIRED_FIELD_REMOVED", description:"The %s schema is missing a required"""
        """ field at path: '#/M/1' in the %s schema"}""",
    ),
    (
        "message M { oneof o { int32 a = 1; int32 b = 2; } }",
        "message M { oneof o { int32 a = 1; } }",
        """{errorType:"ONEOF_FIELD_REMOVED", description:"The %s schema is missing a oneof field"""
        """ at path '#/M/o/2' in the %s schema"}""",
    ),
    (
        "message M { int32 a = 1; int32 b = 2; }",
        "message M { oneof o { int32 a = 1; int32 b = 2; } }",
        """{errorType:"MULTIPLE_FIELDS_MOVED_TO_ONEOF", description:"Multiple fields in the oneof"""
        """ at path '#/M/o' in the %s schema are outside a oneof in the %s schema"}""",
    ),
    (
        "message M { int32 a = 1; oneof o { int32 b = 2; } }",
        "message M { oneof o { int32 a = 1; int32 b = 2; } }",
        """{errorType:"FIELD_MOVED_TO_EXISTING_ONEOF", description:"A field in the oneof at path"""
        """ '#/M/o' in the %s schema is outside an existing oneof in the %s schema"}""",
    ),
]


@pytest.mark.parametrize(("writer", "reader", "message"), MESSAGES)
def test_each_difference_has_the_words_of_confluent(writer: str, reader: str, message: str) -> None:
    found = incompatibilities(
        SchemaDocument(of_syntax(reader), {}), SchemaDocument(of_syntax(writer), {})
    )
    assert found == [message]


NAMES = st.sampled_from(["a", "b", "c", "message", "option", "D_e"])
TYPES = st.sampled_from(["int32", "string", "bool", "double", "M", ".p.M.N", "N.E", "M.N"])
FIELDS = st.builds(
    "{}{} {} = {{0}}{};".format,
    st.sampled_from(["", "optional ", "repeated "]),
    TYPES,
    NAMES,
    st.sampled_from(["", " [deprecated = true]", ' [json_name = "x{0}", deprecated = false]']),
)
MEMBERS = st.lists(
    FIELDS
    | st.builds("map<string, {}> {} = {{0}};".format, TYPES, NAMES)
    | st.builds("oneof o {{{{ {} f = {{0}}; }}}}".format, TYPES)
    | st.just("/* nothing */ reserved 9{0}0 to 9{0}5, 9{0}7; // none\n"),
    max_size=6,
)


@st.composite
def files(draw: st.DrawFn) -> str:
    """Files with the messages M and M.N and the enum M.N.E, and members with unique names."""
    numbered = [one.format(n + 1) for n, one in enumerate(draw(MEMBERS))]
    numbered = [re.sub(r"(\w+) = (\d+)(?=[ ;\[])", r"\1\2 = \2", one) for one in numbered]
    numbered = [one.replace("oneof o", f"oneof o{n}") for n, one in enumerate(numbered)]
    inner = "message N { enum E { A = 0; B = 1; } }"
    members = draw(st.permutations([*numbered, inner]))
    return f'syntax = "proto3"; package p; message M {{ {" ".join(members)} }}'


@given(file=files(), normalize=st.booleans())
def test_the_canonical_text_of_a_canonical_text_is_itself(file: str, normalize: bool) -> None:
    text = canonical(file, {}, normalize=normalize)
    assert canonical(text, {}, normalize=normalize) == text
    assert canonical(text, {}, normalize=False) == text
    assert canonical(text, {}, normalize=True) == canonical(file, {}, normalize=True)


@given(file=files())
def test_a_schema_reads_what_it_wrote(file: str) -> None:
    normal = canonical(file, {}, normalize=True)
    assert incompatibilities(SchemaDocument(file, {}), SchemaDocument(normal, {})) == []


def meaning(file: str) -> FileDescriptorProto:
    """The descriptor of a file, with the fields and oneofs in one order."""
    serialized = formatted(file, {}, "serialized")
    descriptor = FileDescriptorProto.FromString(base64.b64decode(serialized))
    message = descriptor.message_type[0]
    names = [one.name for one in message.oneof_decl]
    for field in message.field:
        if field.HasField("oneof_index"):
            field.json_name += f" in {names[field.oneof_index]}"
            field.ClearField("oneof_index")
    message.field.sort(key=lambda one: one.number)
    message.oneof_decl.sort(key=lambda one: one.name)
    message.nested_type.sort(key=lambda one: one.name)
    ranges = [(one.start, one.end) for one in message.reserved_range]
    del message.reserved_range[:]
    message.reserved_name[:] = [str(one) for one in sorted(ranges)]
    return descriptor


@pytest.mark.usefixtures("folder")
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=files(), normalize=st.booleans())
def test_the_canonical_text_has_the_meaning_of_the_file(file: str, normalize: bool) -> None:
    assert meaning(canonical(file, {}, normalize=normalize)) == meaning(file)
