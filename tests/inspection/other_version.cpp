// A program whose tickwheel is of another version than the printers of gdb.
namespace tickwheel {
class wheel {
  [[maybe_unused]] int fields = 1;
};
}  // namespace tickwheel

tickwheel::wheel foreign;

int main() {}
