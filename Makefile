# Forwards the verbs that everybody knows; Meson does the work. See ./run and ./test.
.PHONY: all test check-asan install clean
all:
	./run build
test:
	./test quick
check-asan:
	./test asan
install: all
	meson install -C build --no-rebuild
clean:
	rm -rf build build-test
