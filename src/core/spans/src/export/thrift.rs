//! An encoder of Thrift's binary protocol.

/// Wire types of fields.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum Type {
    Bool = 2,
    Double = 4,
    I16 = 6,
    I32 = 8,
    I64 = 10,
    String = 11,
    Struct = 12,
    List = 15,
}

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Writer {
    out: Vec<u8>,
}

impl Writer {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    fn field(&mut self, number: i16, kind: Type) {
        self.out.push(kind as u8);
        self.out.extend_from_slice(&number.to_be_bytes());
    }

    fn length(&mut self, length: usize) {
        self.out.extend_from_slice(&i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes());
    }

    pub(super) fn bool(&mut self, number: i16, value: bool) {
        self.field(number, Type::Bool);
        self.out.push(u8::from(value));
    }

    pub(super) fn double(&mut self, number: i16, value: f64) {
        self.field(number, Type::Double);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn i16(&mut self, number: i16, value: i16) {
        self.field(number, Type::I16);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn i32(&mut self, number: i16, value: i32) {
        self.field(number, Type::I32);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn i64(&mut self, number: i16, value: i64) {
        self.field(number, Type::I64);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// An id as the signed integer with the same bits.
    pub(super) fn id(&mut self, number: i16, value: u64) {
        self.i64(number, i64::from_be_bytes(value.to_be_bytes()));
    }

    pub(super) fn bytes(&mut self, number: i16, value: &[u8]) {
        self.field(number, Type::String);
        self.length(value.len());
        self.out.extend_from_slice(value);
    }

    pub(super) fn text(&mut self, number: i16, value: &str) {
        self.bytes(number, value.as_bytes());
    }

    /// A struct in a field.
    pub(super) fn structure(&mut self, number: i16, write: impl FnOnce(&mut Self)) {
        self.field(number, Type::Struct);
        self.fields(write);
    }

    /// The fields of a struct, with the stop field.
    pub(super) fn fields(&mut self, write: impl FnOnce(&mut Self)) {
        write(self);
        self.out.push(0);
    }

    /// A list of structs in a field.
    pub(super) fn list<T>(
        &mut self,
        number: i16,
        items: impl ExactSizeIterator<Item = T>,
        write: impl FnMut(&mut Self, T),
    ) {
        self.field(number, Type::List);
        self.items(items, write);
    }

    /// A list of structs.
    pub(super) fn items<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.out.push(Type::Struct as u8);
        self.length(items.len());
        for item in items {
            self.fields(|writer| write(writer, item));
        }
    }
}
