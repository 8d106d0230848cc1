//! The functions and operators of CEL with their overloads.

use std::rc::Rc;

use super::types::{Bindings, DNS_NAME, EMAIL_ADDRESS, IP_ADDRESS, Type, URI};

/// An overload of a function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Overload {
    /// Whether it is called as a method; the first parameter is then the receiver.
    pub(super) is_method: bool,
    params: &'static [Param],
    result: Param,
}

/// A type in a signature; `A` and `B` are type parameters.
#[derive(Debug, Clone, Copy)]
enum Param {
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    Dyn,
    A,
    B,
    ListOfA,
    MapOfAToB,
    TypeOfA,
    Ip,
    Email,
    Uri,
    DnsName,
    StringMap,
}

use Param::{
    A, B, Bool, Bytes, DnsName, Double, Duration, Dyn, Email, Int, Ip, ListOfA, MapOfAToB, String, StringMap,
    Timestamp, TypeOfA, Uint, Uri,
};

const fn function(params: &'static [Param], result: Param) -> Overload {
    Overload { is_method: false, params, result }
}

const fn method(params: &'static [Param], result: Param) -> Overload {
    Overload { is_method: true, params, result }
}

const LOGIC: &[Overload] = &[function(&[Bool, Bool], Bool)];
const TRUTH: &[Overload] = &[function(&[Bool], Bool)];
const EQUALITY: &[Overload] = &[function(&[A, A], Bool)];
const ORDER: &[Overload] = &[
    function(&[Bool, Bool], Bool),
    function(&[Int, Int], Bool),
    function(&[Uint, Uint], Bool),
    function(&[Double, Double], Bool),
    function(&[String, String], Bool),
    function(&[Bytes, Bytes], Bool),
    function(&[Timestamp, Timestamp], Bool),
    function(&[Duration, Duration], Bool),
];
const SUBTRACT: &[Overload] = &[
    function(&[Int, Int], Int),
    function(&[Uint, Uint], Uint),
    function(&[Double, Double], Double),
    function(&[Timestamp, Timestamp], Duration),
    function(&[Timestamp, Duration], Timestamp),
    function(&[Duration, Duration], Duration),
];
const MULTIPLY: &[Overload] =
    &[function(&[Int, Int], Int), function(&[Uint, Uint], Uint), function(&[Double, Double], Double)];
const ADD: &[Overload] = &[
    function(&[Int, Int], Int),
    function(&[Uint, Uint], Uint),
    function(&[Double, Double], Double),
    function(&[String, String], String),
    function(&[Bytes, Bytes], Bytes),
    function(&[ListOfA, ListOfA], ListOfA),
    function(&[Timestamp, Duration], Timestamp),
    function(&[Duration, Timestamp], Timestamp),
    function(&[Duration, Duration], Duration),
];
const SIZE: &[Overload] = &[
    method(&[String], Int),
    method(&[Bytes], Int),
    method(&[ListOfA], Int),
    method(&[MapOfAToB], Int),
    function(&[String], Int),
    function(&[Bytes], Int),
    function(&[ListOfA], Int),
    function(&[MapOfAToB], Int),
];
const TO_STRING: &[Overload] = &[
    function(&[String], String),
    function(&[Bool], String),
    function(&[Int], String),
    function(&[Uint], String),
    function(&[Double], String),
    function(&[Bytes], String),
    function(&[Timestamp], String),
    function(&[Duration], String),
];
const TO_INT: &[Overload] = &[
    function(&[Int], Int),
    function(&[Uint], Int),
    function(&[Double], Int),
    function(&[String], Int),
    function(&[Timestamp], Int),
    function(&[Duration], Int),
];
const STRING_TEST: &[Overload] = &[method(&[String, String], Bool)];
const CALENDAR: &[Overload] = &[method(&[Timestamp], Int), method(&[Timestamp, String], Int)];
const CLOCK: &[Overload] =
    &[method(&[Timestamp], Int), method(&[Timestamp, String], Int), method(&[Duration], Int)];

/// The overloads of `name`; `None` if there is no such function.
pub(super) fn overloads(name: &str) -> Option<&'static [Overload]> {
    Some(match name {
        "_?_:_" => const { &[function(&[Bool, A, A], A)] },
        "_&&_" | "_||_" => LOGIC,
        "!_" | "@not_strictly_false" => TRUTH,
        "_<_" | "_<=_" | "_>_" | "_>=_" => ORDER,
        "_==_" | "_!=_" => EQUALITY,
        "_-_" => SUBTRACT,
        "_*_" | "_/_" => MULTIPLY,
        "_%_" => const { &[function(&[Int, Int], Int), function(&[Uint, Uint], Uint)] },
        "_+_" => ADD,
        "-_" => const { &[function(&[Int], Int), function(&[Double], Double)] },
        "_[_]" => const { &[function(&[ListOfA, Int], A), function(&[MapOfAToB, A], B)] },
        "@in" => const { &[function(&[A, ListOfA], Bool), function(&[A, MapOfAToB], Bool)] },
        "size" => SIZE,
        "type" => const { &[function(&[A], TypeOfA)] },
        "int" => TO_INT,
        "uint" => {
            const {
                &[
                    function(&[Uint], Uint),
                    function(&[Int], Uint),
                    function(&[Double], Uint),
                    function(&[String], Uint),
                ]
            }
        }
        "double" => {
            const {
                &[
                    function(&[Double], Double),
                    function(&[Int], Double),
                    function(&[Uint], Double),
                    function(&[String], Double),
                ]
            }
        }
        "bool" => const { &[function(&[Bool], Bool), function(&[String], Bool)] },
        "string" => TO_STRING,
        "bytes" => const { &[function(&[Bytes], Bytes), function(&[String], Bytes)] },
        "timestamp" => {
            const {
                &[
                    function(&[Timestamp], Timestamp),
                    function(&[String], Timestamp),
                    function(&[Int], Timestamp),
                ]
            }
        }
        "duration" => {
            const { &[function(&[Duration], Duration), function(&[String], Duration), function(&[Int], Duration)] }
        }
        "dyn" => const { &[function(&[A], Dyn)] },
        "contains" | "endsWith" | "matches" | "startsWith" => STRING_TEST,
        "getFullYear" | "getMonth" | "getDayOfYear" | "getDayOfMonth" | "getDate" | "getDayOfWeek" => {
            CALENDAR
        }
        "getHours" | "getMinutes" | "getSeconds" | "getMilliseconds" => CLOCK,
        "match" => const { &[function(&[String, String], Bool)] },
        "reverse" => const { &[method(&[String], String), function(&[String], String)] },
        "toLower" => const { &[function(&[String], String)] },
        "email" => const { &[function(&[String], Email)] },
        "dnsName" => const { &[function(&[String], DnsName)] },
        "uri" => const { &[function(&[String], Uri)] },
        "ip" => const { &[function(&[String], Ip)] },
        "emptyStringMap" => const { &[function(&[], StringMap)] },
        _ => return None,
    })
}

impl Overload {
    /// Parameter and result types, with new variables for type parameters.
    pub(super) fn instantiate(&self, bindings: &mut Bindings) -> (Vec<Type>, Type) {
        let mut any = Any { bindings, a: None, b: None };
        let params = self.params.iter().map(|param| any.instantiate(*param)).collect();
        let result = any.instantiate(self.result);
        (params, result)
    }
}

struct Any<'b> {
    bindings: &'b mut Bindings,
    a: Option<Type>,
    b: Option<Type>,
}

impl Any<'_> {
    fn a(&mut self) -> Type {
        self.a.get_or_insert_with(|| self.bindings.fresh()).clone()
    }

    fn b(&mut self) -> Type {
        self.b.get_or_insert_with(|| self.bindings.fresh()).clone()
    }

    fn instantiate(&mut self, param: Param) -> Type {
        match param {
            Bool => Type::Bool,
            Int => Type::Int,
            Uint => Type::Uint,
            Double => Type::Double,
            String => Type::String,
            Bytes => Type::Bytes,
            Timestamp => Type::Timestamp,
            Duration => Type::Duration,
            Dyn => Type::Dyn,
            A => self.a(),
            B => self.b(),
            ListOfA => Type::list(self.a()),
            MapOfAToB => Type::map(self.a(), self.b()),
            TypeOfA => Type::Meta(Some(Rc::new(self.a()))),
            Ip => Type::object(IP_ADDRESS),
            Email => Type::object(EMAIL_ADDRESS),
            Uri => Type::object(URI),
            DnsName => Type::object(DNS_NAME),
            StringMap => Type::map(Type::String, Type::String),
        }
    }
}
