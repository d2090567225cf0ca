package simulator

// newID makes an id that no other has and that says nothing about its age, as
// Stripe's ids do not.
func (s *Stripe) newID(prefix string) string {
	return hashedID(prefix, mixText(s.opts.Seed, "single"), s.serial.Add(1))
}

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// hashedID is an id of Stripe's length, fixed by a seed and a number.
func hashedID(prefix string, seed, n uint64) string {
	b := make([]byte, 0, len(prefix)+24)
	b = append(append(b, prefix...), "1Na"...)
	x := mix(seed, n)
	for i := range 21 {
		if i == 10 {
			x = mix(x, n)
		}
		b = append(b, base62[x%62])
		x /= 62
	}
	return string(b)
}

// mix spreads two numbers over 64 bits (splitmix64's finisher).
func mix(seed, n uint64) uint64 {
	x := seed*0x9e3779b97f4a7c15 + n + 0x632be59bd9b4e019
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// mixText spreads a number and a text over 64 bits.
func mixText(seed uint64, text string) uint64 {
	for i := range len(text) {
		seed = mix(seed, uint64(text[i]))
	}
	return mix(seed, uint64(len(text)))
}
