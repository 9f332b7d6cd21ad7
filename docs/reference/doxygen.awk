# What doxygen reads in place of a header, so that headers need no markup: what stands at its top becomes the page of the file, with
# its examples as code; in C, comments before a declaration, or at the end of its line, belong to it, and a row of declarations
# shares the comment above it. Line numbers stay as they are.
FNR == 1 {
  in_c = FILENAME ~ /\.h$/
  page = FILENAME ~ /tickwheel\.hpp$/ ? "@file" : "@file"
  print (in_c ? "/** " : "/// ") page
  in_top = 1
}

# --- C++ ---
!in_c && in_top && /^#pragma once/ { in_top = 0; next }  # makes up for the line that was added
!in_c && in_top { sub(/^\/\//, "///"); sub(/^\/\/\/  /, "///     ") }
!in_c && /= delete;/ { print ""; next }  # what cannot be called needs no comment
!in_c && /friend .*operator/ { sub(/friend /, "") }  # doxygen hides it with the friends that are classes
!in_c && /^ *using [^=]*;/ { sub(/ *\/\/\/<.*/, "") }  # doxygen gives this comment to the declaration that follows
!in_c { print; next }

# --- C ---
in_top {
  if (FNR == 1) sub(/^\/\*/, " *")
  sub(/^ \*  /, " *     ")
  if (/^$/) { in_top = 0; next }  # makes up for the line that was added
  print
  next
}
/^\/\* ---/ { print ""; next }
/^#define [A-Z_]+_\(/ { hidden = 1 }
hidden { hidden = /\\$/; print ""; next }
/^\/\*/ {
  sub(/^\/\*/, "/**")
  comment = ""
  in_comment = 1
}
in_comment {
  comment = comment $0 "\n"
  if (/\*\//) in_comment = 0
  print
  shared = 0
  next
}
/^$/ { shared = 0; comment = "" }
/^[A-Za-z#}]/ && shared && comment != "" && !/^}/ && !/^#(ifdef|ifndef|if|else|endif|include)/ {
  again = comment
  gsub(/\n( \*)?/, " ", again)
  $0 = again $0
}
{
  if (/[;,{0-9] *\/\* .*\*\/$/ && !/^\/\*\*/) sub(/\/\* /, "/**< ")
  if (/private_/) $0 = $0 " /**< Not yours. */"
  shared = shared || /;$/ || /^#define/
  print
}
