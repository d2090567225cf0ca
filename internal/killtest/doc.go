// Package killtest holds no code but tests, which treat nightaudit as the world
// does: the real program is killed, stopped and cut off from its databases at
// any moment, and started again. Whatever happens, no event is lost, none has
// its effect twice, and nothing stays behind that no later run picks up.
package killtest
