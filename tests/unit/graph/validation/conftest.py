import pytest

from omnigraph.lang import Catalog, compile_schema


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return compile_schema("""
node Person {
  slug: String @key  email: String? @unique  age: I32?  height: F32?  level: enum(junior, senior)?
  a: I64?  b: String?  active: Bool @default(true)
  @unique(a, b) @range(age, 0..150) @range(height, 0.5..) @check(email, "@")
}
node Team { name: String  size: U32? }
edge Knows: Person -> Person { since: Date?  weight: F64?  role: enum(lead, member)? }
edge MemberOf: Person -> Team @card(0..1)
edge Owns: Team -> Person @card(1..2) { note: String?  @unique(src, dst) }
""")
